package store_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/shifter-dev/shifter/internal/release"
	"github.com/shifter-dev/shifter/internal/store"
)

// model is a store as one would write it without thinking of versions: what is
// there, and which version was seen last by whom. Each call goes through one of
// the doors.
type model struct {
	doors []Store
	there map[release.Key]*modelRecord
	// held are records that some writer loaded, possibly long ago.
	held []release.Record
}

type modelRecord struct {
	revision, consumed, sent uint64
	version                  release.Version
	lock                     string
	over                     bool
}

func (m *model) store(t *rapid.T) Store { return rapid.SampledFrom(m.doors).Draw(t, "door") }

func (m *model) key(t *rapid.T) release.Key {
	return release.Key{Namespace: "shop", Name: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name")}
}

func (m *model) create(t *rapid.T) {
	k := m.key(t)
	r := sample(k.Name)
	r.Binding.Routes[0].UID = rapid.SampledFrom([]string{"r1", "r2"}).Draw(t, "lock")
	lock := r.Binding.Locks()[0]
	taken := m.there[k] != nil
	for _, o := range m.there {
		taken = taken || !o.over && o.lock == lock
	}
	err := m.store(t).Create(t.Context(), r)
	if taken != errors.Is(err, release.ErrExists) {
		t.Fatalf("create %s over %s: %v, and the model says taken: %v", k, lock, err, taken)
	}
	if taken {
		return
	}
	rec, err := m.store(t).Load(t.Context(), k)
	if err != nil {
		t.Fatalf("load %s: %v", k, err)
	}
	m.there[k] = &modelRecord{revision: 1, version: rec.Version, lock: lock}
}

func (m *model) load(t *rapid.T) {
	k := m.key(t)
	rec, err := m.store(t).Load(t.Context(), k)
	want := m.there[k]
	if want == nil {
		if !errors.Is(err, release.ErrNotFound) {
			t.Fatalf("load %s: %v", k, err)
		}
		return
	}
	if err != nil || rec.Version != want.version || rec.Release.Revision != want.revision || rec.Release.Phase.Terminal() != want.over {
		t.Fatalf("load %s: %v, %+v, and the model has %+v", k, err, rec, want)
	}
	var seqs []uint64
	for _, c := range rec.Inbox {
		seqs = append(seqs, c.Seq)
	}
	var expected []uint64
	for s := want.consumed + 1; s <= want.sent; s++ {
		expected = append(expected, s)
	}
	if !slices.Equal(seqs, expected) {
		t.Fatalf("the inbox of %s is %v, and the model has %v", k, seqs, expected)
	}
	m.held = append(m.held, rec)
}

func (m *model) save(t *rapid.T) {
	if len(m.held) == 0 {
		t.Skip("nothing is held")
	}
	rec := rapid.SampledFrom(m.held).Draw(t, "held")
	r, want := rec.Release, m.there[rec.Release.Key]
	for _, c := range rec.Inbox {
		if rapid.Bool().Draw(t, "consume") {
			r.Consumed = c.Seq
		}
	}
	if rapid.IntRange(0, 4).Draw(t, "end") == 0 {
		r.Phase = release.Succeeded
	}
	v, err := m.store(t).Save(t.Context(), r, rec.Version)
	switch {
	case rec.Version != want.version:
		if !errors.Is(err, release.ErrConflict) {
			t.Fatalf("a stale save of %s: %v", r.Key, err)
		}
	case want.over:
		if !errors.Is(err, release.ErrRefused) {
			t.Fatalf("a save over the end of %s: %v", r.Key, err)
		}
	case err != nil:
		t.Fatalf("save %s: %v", r.Key, err)
	default:
		want.revision, want.version, want.consumed, want.over = want.revision+1, v, r.Consumed, r.Phase.Terminal()
	}
}

func (m *model) send(t *rapid.T) {
	k := m.key(t)
	c, err := m.store(t).Append(t.Context(), k, release.Command{Verb: release.VerbAbort, Reason: fmt.Sprint(len(m.held))})
	switch want := m.there[k]; {
	case want == nil:
		if !errors.Is(err, release.ErrNotFound) {
			t.Fatalf("append to %s: %v", k, err)
		}
	case want.over:
		if !errors.Is(err, release.ErrRefused) {
			t.Fatalf("append to %s, which has ended: %v", k, err)
		}
	default:
		want.sent++
		if err != nil || c.Seq != want.sent {
			t.Fatalf("append to %s: %v, number %d, and the model has %d", k, err, c.Seq, want.sent)
		}
		rec, err := m.store(t).Load(t.Context(), k)
		if err != nil || rec.Version == want.version {
			t.Fatalf("a command did not move the version of %s: %v", k, err)
		}
		want.version = rec.Version
	}
}

func (m *model) walk(t *rapid.T) {
	t.Repeat(map[string]func(*rapid.T){"create": m.create, "load": m.load, "save": m.save, "send": m.send})
}

func TestMemoryAgreesWithADumbModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &model{doors: []Store{store.NewMemory()}, there: map[release.Key]*modelRecord{}}
		m.walk(t)
	})
}

// TestConfigMapsAgreeWithADumbModel goes through two processes, and so often only:
// each step is a few requests.
func TestConfigMapsAgreeWithADumbModel(t *testing.T) {
	const walks = 30
	w := newCluster(t)
	n, failed := 0, false
	rapid.Check(t, func(rt *rapid.T) {
		if n++; n > walks && !failed {
			return
		}
		defer func() { failed = failed || rt.Failed() }()
		cfg := store.ConfigMapsConfig{Namespace: fmt.Sprint("walk-", n)} // its own
		m := &model{doors: []Store{w.open(t, cfg), w.open(t, cfg)}, there: map[release.Key]*modelRecord{}}
		m.walk(rt)
	})
}
