package store_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shifter-dev/shifter/internal/kubetest"
	"github.com/shifter-dev/shifter/internal/release"
	"github.com/shifter-dev/shifter/internal/store"
)

// over is a release that needs what another one needs.
func over(name string, other release.Release) release.Release {
	r := anew(name)
	r.Binding.Routes, r.Binding.Tracks = other.Binding.Routes, other.Binding.Tracks
	return r
}

// anew is another release of the same name.
func anew(name string) release.Release {
	r := sample(name)
	r.UID = "another"
	return r
}

// later sets a store's clock ahead.
func later(s *store.ConfigMaps, d time.Duration) {
	s.SetClock(func() time.Time { return time.Now().Add(d) })
}

func wantTaken(t *testing.T, err error, holder release.Key, lock bool) {
	t.Helper()
	var taken *store.Taken
	if !errors.As(err, &taken) || taken.HeldBy() != holder || (taken.Lock != "") != lock {
		t.Fatalf("error %v does not name %s", err, holder)
	}
}

// table reads the table of locks.
func table(t *testing.T, c *cluster) map[string]any {
	t.Helper()
	var out struct{ Locks map[string]any }
	if err := json.Unmarshal([]byte(kubetest.Text(c.Get(configMaps, ns, store.LocksName), "data", "locks.json")), &out); err != nil {
		t.Fatal(err)
	}
	return out.Locks
}

// dies makes a store's creator end before a write for which at says so: nothing
// that it would do after that is done.
func (c *cluster) dies(s *store.ConfigMaps, at func(r *http.Request) bool) {
	var dead atomic.Bool
	c.hook(s, func(r *http.Request) error {
		if dead.Load() || at(r) {
			dead.Store(true)
			return errLost
		}
		return nil
	}, nil)
}

func TestACreatorThatDiesBetweenLockAndRecordIsInTheWayForAMinute(t *testing.T) {
	c := newCluster(t)
	s, other := c.two(t)
	create1(t, s, sample("first")) // the table is there
	a := sample("a")
	c.dies(s, func(r *http.Request) bool { return puts(r, store.RecordName(a.Key)) })
	wantErr(t, s.Create(t.Context(), a), release.ErrUnavailable)

	// It is no release for anybody, and nobody else has what it may still get.
	_, err := other.Load(t.Context(), a.Key)
	wantErr(t, err, release.ErrNotFound)
	_, err = other.Append(t.Context(), a.Key, release.Command{})
	wantErr(t, err, release.ErrNotFound)
	_, err = other.Save(t.Context(), a, "1")
	wantErr(t, err, release.ErrNotFound)
	if keys, err := other.List(t.Context()); err != nil || len(keys) != 1 {
		t.Errorf("listed %v, %v", keys, err)
	}
	wantTaken(t, other.Create(t.Context(), over("b", a)), a.Key, true)
	wantTaken(t, other.Create(t.Context(), anew("a")), a.Key, false)

	later(other, store.Grace+time.Second)
	create1(t, other, over("b", a))
	create1(t, other, sample("c"))
	if o := c.Get(configMaps, ns, store.RecordName(a.Key)); o != nil {
		t.Errorf("the draft is still there: %v", o["metadata"])
	}
	again := anew("a")
	again.Binding = sample("elsewhere").Binding
	create1(t, other, again) // the name was never used
}

func TestACreatorThatDiesBeforeItsLocksLeavesItsNameInAMinute(t *testing.T) {
	c := newCluster(t)
	s, other := c.two(t)
	create1(t, s, sample("first"))
	c.dies(s, func(r *http.Request) bool { return puts(r, store.LocksName) })
	wantErr(t, s.Create(t.Context(), sample("a")), release.ErrUnavailable)
	wantTaken(t, other.Create(t.Context(), anew("a")), sample("a").Key, false)
	create1(t, other, over("b", sample("a"))) // it has no locks yet
	later(other, store.Grace+time.Second)
	create1(t, other, over("a", sample("c")))
}

// TestASlowCreatorLoses has a creator sleep before its last step until another has
// taken it for dead: its last step fails.
func TestASlowCreatorLoses(t *testing.T) {
	c := newCluster(t)
	s, other := c.two(t)
	a := sample("a")
	late := over("b", a)
	later(other, time.Hour)
	var slept bool
	c.hook(s, func(r *http.Request) error {
		if puts(r, store.RecordName(a.Key)) && !slept {
			slept = true
			create1(t, other, late)
		}
		return nil
	}, nil)
	err := s.Create(t.Context(), a)
	wantErr(t, err, release.ErrUnavailable)
	if !strings.Contains(err.Error(), "gave it up") {
		t.Errorf("got %v", err)
	}
	if keys, err := s.List(t.Context()); err != nil || len(keys) != 1 || keys[0] != late.Key {
		t.Errorf("listed %v, %v", keys, err)
	}
	wantTaken(t, s.Create(t.Context(), a), late.Key, true)
}

// TestASlowCreatorThatIsAheadOfTheGraveWins has it take its last step while the
// other is about to delete its draft.
func TestASlowCreatorThatIsAheadOfTheGraveWins(t *testing.T) {
	c := newCluster(t)
	s, other := c.two(t)
	create1(t, s, sample("first"))
	a := sample("a")
	later(other, time.Hour)
	last, proceed, done := make(chan bool), make(chan bool), make(chan error, 1)
	c.hook(s, func(r *http.Request) error {
		if puts(r, store.RecordName(a.Key)) {
			close(last)
			<-proceed
		}
		return nil
	}, nil)
	go func() { done <- s.Create(soon(t), a) }()
	<-last
	c.hook(other, func(r *http.Request) error {
		if r.Method == http.MethodDelete {
			close(proceed)
			if err := <-done; err != nil {
				t.Errorf("the creator was not faster: %v", err)
			}
		}
		return nil
	}, nil)
	wantTaken(t, other.Create(soon(t), over("b", a)), a.Key, true)
	load(t, other, a.Key)
}

// TestATableThatLooksAsBeforeIsAnotherOne has a release come back that had died
// in its creation, with the same entry in the table, while another has just seen
// that it is not there.
func TestATableThatLooksAsBeforeIsAnotherOne(t *testing.T) {
	c := newCluster(t)
	s, other := c.two(t)
	at := time.Now()
	frozen := func() time.Time { return at }
	s.SetClock(frozen)
	other.SetClock(frozen)
	a := sample("a")
	c.dies(s, func(r *http.Request) bool { return puts(r, store.RecordName(a.Key)) })
	wantErr(t, s.Create(t.Context(), a), release.ErrUnavailable)
	c.hook(s, nil, nil)
	c.Delete(configMaps, ns, store.RecordName(a.Key))
	var slept bool
	c.hook(other, func(r *http.Request) error {
		if puts(r, store.LocksName) && !slept {
			slept = true
			create1(t, s, a)
		}
		return nil
	}, nil)
	wantTaken(t, other.Create(t.Context(), over("b", a)), a.Key, true)
}

// TestACreatorThatLosesItsLockTakesItsDraftAway has another create in between.
func TestACreatorThatLosesItsLockTakesItsDraftAway(t *testing.T) {
	c := newCluster(t)
	s, other := c.two(t)
	create1(t, s, sample("first"))
	a := sample("a")
	winner := over("b", a)
	var slept bool
	c.hook(s, func(r *http.Request) error {
		if puts(r, store.LocksName) && !slept {
			slept = true
			create1(t, other, winner)
		}
		return nil
	}, nil)
	wantTaken(t, s.Create(t.Context(), a), winner.Key, true)
	if o := c.Get(configMaps, ns, store.RecordName(a.Key)); o != nil {
		t.Errorf("the draft is still there: %v", o["metadata"])
	}
}

func TestADraftOfAnotherTimeIsNobodys(t *testing.T) {
	c := newCluster(t)
	s, other := c.two(t)
	later(s, 365*24*time.Hour) // a clock that is wrong
	c.dies(s, func(r *http.Request) bool { return puts(r, store.RecordName(sample("a").Key)) })
	wantErr(t, s.Create(t.Context(), sample("a")), release.ErrUnavailable)
	create1(t, other, over("b", sample("a")))
}

func TestARecordThatCannotBeReadKeepsItsLocks(t *testing.T) {
	c := newCluster(t)
	s := c.open(t, store.ConfigMapsConfig{})
	a := create(t, s, sample("a")).Release
	c.bench(s).Put(t, a.Key, []byte("rubbish"))
	wantTaken(t, s.Create(t.Context(), over("b", a)), a.Key, true)
}

func TestTheTableDoesNotGrowWithWhatHasEnded(t *testing.T) {
	c := newCluster(t)
	s := c.open(t, store.ConfigMapsConfig{})
	for i := range 3 {
		create1(t, s, sample(fmt.Sprint("long-", i)))
	}
	for i := range 40 {
		rec := create(t, s, sample(fmt.Sprint("short-", i)))
		save(t, s, ended(rec.Release), rec.Version)
	}
	// Nine locks are of the three that go on; the rest is of the last few.
	if n := len(table(t, c)); n < 9 || n > 60 {
		t.Errorf("%d locks are in the table", n)
	}
	for i := range 3 {
		wantTaken(t, s.Create(t.Context(), over("x", sample(fmt.Sprint("long-", i)))), sample(fmt.Sprint("long-", i)).Key, true)
	}
}

func TestATableThatWasDeletedIsMadeAnew(t *testing.T) {
	c := newCluster(t)
	s, other := c.two(t)
	a := create(t, s, sample("a")).Release
	b := sample("b")
	c.dies(other, func(r *http.Request) bool { return puts(r, store.RecordName(b.Key)) })
	wantErr(t, other.Create(t.Context(), b), release.ErrUnavailable)
	bad := create(t, s, sample("bad")).Release
	c.bench(s).Put(t, bad.Key, []byte("rubbish"))
	rec := create(t, s, sample("over"))
	save(t, s, ended(rec.Release), rec.Version)

	c.Delete(configMaps, ns, store.LocksName)
	wantTaken(t, s.Create(t.Context(), over("x", a)), a.Key, true)
	wantTaken(t, s.Create(t.Context(), over("x", b)), b.Key, true) // a draft, too
	create1(t, s, over("x", rec.Release))
	wantTaken(t, s.Create(t.Context(), over("y", a)), a.Key, true)

	// Also while a creator is on its way.
	var slept bool
	c.hook(s, func(r *http.Request) error {
		if puts(r, store.LocksName) && !slept {
			slept = true
			c.Delete(configMaps, ns, store.LocksName)
		}
		return nil
	}, nil)
	create1(t, s, sample("z"))
	wantTaken(t, s.Create(t.Context(), over("y", sample("z"))), sample("z").Key, true)
	wantTaken(t, s.Create(t.Context(), over("y", a)), a.Key, true)
}

func TestATableThatCannotBeReadIsNamedAndStopsOnlyCreation(t *testing.T) {
	c := newCluster(t)
	s := c.open(t, store.ConfigMapsConfig{})
	rec := create(t, s, sample("a"))
	for _, text := range []string{"rubbish", `{}`, `{"schema":9,"locks":{}}`, ""} {
		c.Edit("kubectl", configMaps, ns, store.LocksName, func(o kubetest.Object) { kubetest.In(o, "data")["locks.json"] = text })
		err := s.Create(t.Context(), sample("b"))
		if err == nil || errors.Is(err, release.ErrExists) || !strings.Contains(err.Error(), "ConfigMap shifter/shifter-locks") || !strings.Contains(err.Error(), "delete it") {
			t.Errorf("%q: %v", text, err)
		}
		rec.Version = save(t, s, rec.Release, rec.Version)
	}
	c.Delete(configMaps, ns, store.LocksName)
	create1(t, s, sample("b"))
	wantTaken(t, s.Create(t.Context(), over("c", rec.Release)), rec.Release.Key, true)
}
