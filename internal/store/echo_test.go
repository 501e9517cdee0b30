package store_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/shifter-dev/shifter/internal/release"
	"github.com/shifter-dev/shifter/internal/store"
)

func TestEchoesAreToldFromOthers(t *testing.T) {
	k, other := release.Key{Namespace: "shop", Name: "a"}, release.Key{Namespace: "shop", Name: "b"}
	e := store.NewEchoes()
	var told []string
	hear := func(k release.Key, v release.Version) {
		e.Hear(k, v, func() { told = append(told, k.Name+string(v)) })
	}
	expect := func(what string, want ...string) {
		t.Helper()
		if !slices.Equal(told, want) {
			t.Errorf("%s: told %v, want %v", what, told, want)
		}
		told = nil
	}
	hear(k, "1")
	expect("nothing is under way", "a1")
	f := e.Begin(k)
	hear(k, "2")
	hear(k, "3")
	hear(other, "4")
	expect("a write is under way", "b4")
	e.End(f, "3")
	expect("it made one of them", "a2")
	hear(k, "3")
	expect("its echo comes again, for another watch")
	f = e.Begin(k)
	hear(k, "5")
	e.End(f, "")
	expect("a write has no answer", "a5")

	// An event waits for the writes that were under way when it came, and no other.
	first, second := e.Begin(k), e.Begin(k)
	hear(k, "6")
	third := e.Begin(k)
	hear(k, "7")
	e.End(first, "8")
	expect("one of two is not enough")
	e.End(second, "9")
	expect("the third began later", "a6")
	e.End(third, "7")
	expect("it was the third")

	for i := range store.MaxMade {
		e.End(e.Begin(other), release.Version(fmt.Sprint("w", i)))
	}
	hear(other, "w1")
	hear(k, "7")
	expect("the oldest are forgotten", "a7")
}
