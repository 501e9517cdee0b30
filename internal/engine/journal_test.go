package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shifter-dev/shifter/internal/release"
)

// poisoned is a journal in which some records cannot be understood.
type poisoned struct {
	journal
	bad release.Key
}

type unreadableError struct{}

func (unreadableError) Error() string    { return "schema 9 is not known" }
func (unreadableError) Unreadable() bool { return true }

func (p poisoned) Load(ctx context.Context, k release.Key) (release.Record, error) {
	if k == p.bad {
		err := p.around(ctx, entry{port: "Load", key: k}, false, func(*scene, *entry) error {
			return fmt.Errorf("record of %s: %w", k, unreadableError{})
		})
		return release.Record{}, err
	}
	return p.journal.Load(ctx, k)
}

func TestARecordThatCannotBeReadIsSetAsideAndTheOthersGoOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		bad, good := w.admit(t, "bad"), w.admit(t, "good")
		e := w.engine(t)
		e.cfg.Journal = poisoned{journal{w}, bad}
		stop := start(t, e)
		r := w.finish(t, good)
		stop()
		succeeded(t, w, good, r)
		v, ok := e.Views().Get(bad)
		if !ok || v.Live || v.Release.Phase != release.Failed || v.Release.Reason != release.ReasonInternal || !v.Release.NeedsHuman ||
			!strings.Contains(v.Release.Message, "schema 9") {
			t.Errorf("it is shown as %+v", v)
		}
		if n := len(w.entries(bad, func(e entry) bool { return e.port != "Load" })); n > 0 {
			t.Errorf("%d calls were made for it", n)
		}
		if n := len(w.entries(bad, func(entry) bool { return true })); n != 1 {
			t.Errorf("it was loaded %d times", n)
		}
	})
}

func TestAJournalThatDoesNotAnswerIsAskedAgain(t *testing.T) {
	t.Parallel()
	for _, port := range []string{"Watch", "List", "Load", "Save"} {
		t.Run(port, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				k := w.admit(t, "a")
				w.failing(port, fmt.Errorf("%s: %w", port, release.ErrUnavailable))
				stop := start(t, w.engine(t))
				time.Sleep(30 * time.Second)
				if n := w.count(port); n < 5 || n > 40 {
					t.Errorf("%d tries in 30 s", n)
				}
				if n := len(w.entries(k, entry.effect)); n > 0 {
					t.Errorf("%d effects without a journal", n)
				}
				w.setHook(nil)
				r := w.finish(t, k)
				stop()
				succeeded(t, w, k, r)
			})
		})
	}
}

func TestASaveWhoseReplyWasLostIsFoundAgainAndTheEvidenceKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		run := func(hook func(c call, done bool) error) (time.Duration, []float64) {
			w := newWorld()
			k := w.admit(t, "a")
			w.setHook(hook)
			began := time.Now()
			stop := start(t, w.engine(t))
			r := w.finish(t, k)
			stop()
			succeeded(t, w, k, r)
			if n := len(r.Steps); n != 4 {
				t.Errorf("%d steps on record", n)
			}
			if n := len(w.says("the record was written by another")); n > 0 {
				t.Errorf("%d saves of its own were taken for another's", n)
			}
			return time.Since(began), w.written(k)
		}
		quiet, want := run(nil)
		lost := 0
		lossy, got := run(func(c call, done bool) error {
			if c.port != "Save" || !done {
				return nil
			}
			if lost++; lost%2 == 1 {
				return fmt.Errorf("save: %w", release.ErrUnavailable)
			}
			return nil
		})
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("shares written: %v, and without loss %v", got, want)
		}
		if lossy > quiet+30*time.Second {
			t.Errorf("with every other reply lost it took %s, without %s: evidence was thrown away", lossy, quiet)
		}
	})
}

func TestARecordThatAnotherWroteIsTakenAsItIs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		k := w.admit(t, "a")
		stop := start(t, w.engine(t))
		for len(w.written(k)) < 2 {
			time.Sleep(time.Second)
		}
		rec, err := w.Load(t.Context(), k)
		if err != nil {
			t.Fatal(err)
		}
		r := rec.Release
		r.Phase, r.Reason, r.Ended = release.Failed, release.ReasonInternal, time.Now()
		if _, err := w.Save(t.Context(), r, rec.Version); err != nil {
			t.Fatal(err)
		}
		before := len(w.entries(k, entry.effect))
		time.Sleep(2 * time.Minute)
		if len(w.says("the record was written by another")) != 1 {
			t.Error("it was not said")
		}
		if after := len(w.entries(k, entry.effect)); after != before {
			t.Errorf("%d effects after another ended it", after-before)
		}
		stop()
		if r := w.record(k); r.Phase != release.Failed {
			t.Errorf("it is %s now", r.Phase)
		}
	})
}

func TestAWatchThatEndsIsTakenUpAgainAndNothingIsMissed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		e := w.engine(t)
		watching := make(chan context.CancelFunc, 10)
		e.cfg.Journal = cutJournal{journal{w}, watching}
		stop := start(t, e)
		cut := <-watching
		cut()
		synctest.Wait()
		k := w.admit(t, "a") // while nobody watches
		r := w.finish(t, k)
		stop()
		succeeded(t, w, k, r)
	})
}

// cutJournal gives each watch a way to be cut.
type cutJournal struct {
	journal
	watching chan context.CancelFunc
}

func (c cutJournal) Watch(ctx context.Context) (<-chan release.Key, error) {
	ctx, cut := context.WithCancel(ctx)
	c.watching <- cut
	return c.journal.Watch(ctx)
}

func TestNoEffectIsTakenWhileTheRecordCannotBeSaved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		k := w.admit(t, "a")
		stop := start(t, w.engine(t))
		for len(w.written(k)) < 1 {
			time.Sleep(time.Second)
		}
		w.failing("Save", fmt.Errorf("save: %w", release.ErrUnavailable))
		before := len(w.entries(k, entry.effect))
		time.Sleep(time.Minute)
		if after := len(w.entries(k, entry.effect)); after != before {
			t.Errorf("%d effects", after-before)
		}
		w.setHook(nil)
		r := w.finish(t, k)
		stop()
		succeeded(t, w, k, r)
	})
}

func TestARecordThatIsRemovedIsLetGo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		k := w.admit(t, "a")
		e := w.engine(t)
		stop := start(t, e)
		time.Sleep(5 * time.Second)
		w.setHook(func(c call, done bool) error {
			if (c.port == "Load" || c.port == "Save") && !done {
				return release.ErrNotFound
			}
			return nil
		})
		w.abort(t, k)
		time.Sleep(time.Second)
		calls := w.count("Router.Read")
		time.Sleep(time.Hour)
		if n := w.count("Router.Read"); n != calls {
			t.Errorf("it was looked at %d times more", n-calls)
		}
		if _, ok := e.Views().Get(k); ok {
			t.Error("it is still shown")
		}
		stop()
	})
}

func TestARecordThatCannotBeSavedForWhatItSaysIsQuarantined(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		bad, good := w.admit(t, "bad"), w.admit(t, "good")
		e := w.engine(t)
		decide := e.brain.decide
		e.brain.decide = func(r release.Release, o release.Observation) release.Decision {
			d := decide(r, o)
			if r.Key == bad && r.Phase != release.Pending && r.Phase != release.Preflight {
				d.Next.Message, d.Save = strings.Repeat("x", 100<<10), true
			}
			return d
		}
		stop := start(t, e)
		r := w.finish(t, bad)
		quarantinedAs(t, e, r, "room")
		g := w.finish(t, good)
		stop()
		succeeded(t, w, good, g)
	})
}

// quarantinedAs checks a release that met a fault of ours.
func quarantinedAs(t testing.TB, e *Engine, r release.Release, cause string) {
	t.Helper()
	if r.Phase != release.Failed || r.Reason != release.ReasonInternal || !r.NeedsHuman || len(r.Unverified) == 0 || r.Ended.IsZero() ||
		!strings.Contains(r.Message, cause) {
		t.Errorf("ended %s (%s) %v: %.200s", r.Phase, r.Reason, r.Unverified, r.Message)
	}
	if last := r.History[len(r.History)-1]; last.Phase != release.Failed || last.Seq != r.Seq {
		t.Errorf("the story ends with %+v", last)
	}
	time.Sleep(time.Second)
	if v, ok := e.Views().Get(r.Key); !ok || v.Release.Phase != release.Failed {
		t.Errorf("it is shown as %s", v.Release.Phase)
	}
}

func TestAPanicEndsItsOwnReleaseAndNoOther(t *testing.T) {
	t.Parallel()
	for _, port := range []string{"Router.Read", "Workloads.Read", "Look", "SetShare", "Save", "decide"} {
		t.Run(port, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				bad, good := w.admit(t, "bad"), w.admit(t, "good")
				e := w.engine(t)
				panics := func() bool { return len(w.written(bad)) > 0 }
				times := 0
				w.setHook(func(c call, done bool) error {
					if c.port == port && c.key == bad && done && (panics() || port == "SetShare") && times < 3 {
						times++
						panic("the adapter is broken")
					}
					return nil
				})
				if port == "decide" {
					decide := e.brain.decide
					e.brain.decide = func(r release.Release, o release.Observation) release.Decision {
						if r.Key == bad && panics() {
							panic("the brain is broken")
						}
						return decide(r, o)
					}
				}
				stop := start(t, e)
				r := w.finish(t, bad)
				quarantinedAs(t, e, r, "broken")
				calls := len(w.entries(bad, func(e entry) bool { return e.port != "Load" }))
				g := w.finish(t, good)
				stop()
				succeeded(t, w, good, g)
				if n := len(w.entries(bad, func(e entry) bool { return e.port != "Load" })); n != calls {
					t.Errorf("%d calls after the quarantine", n-calls)
				}
				if got := w.releases[bad].split[0]; got.Primary != 10 {
					t.Errorf("its traffic was moved to %+v", got)
				}
			})
		})
	}
}

func TestAQuarantineIsSavedWhenTheJournalAnswersAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		k := w.admit(t, "a")
		e := w.engine(t)
		e.brain.decide = func(release.Release, release.Observation) release.Decision { panic("the brain is broken") }
		w.failing("Save", fmt.Errorf("save: %w", release.ErrUnavailable))
		stop := start(t, e)
		time.Sleep(time.Minute)
		if v, _ := e.Views().Get(k); v.Release.Phase != release.Failed {
			t.Errorf("it is shown as %s before it is saved", v.Release.Phase)
		}
		w.setHook(nil)
		r := w.finish(t, k)
		quarantinedAs(t, e, r, "broken")
		stop()
	})
}

func TestAQuarantineThatCannotBeSavedIsGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.admit(t, "a")
		e := w.engine(t)
		e.brain.decide = func(release.Release, release.Observation) release.Decision { panic(errors.New("the brain is broken")) }
		w.failing("Save", release.ErrRefused)
		stop := start(t, e)
		time.Sleep(time.Minute)
		calls := w.allCalls()
		time.Sleep(time.Hour)
		if after := w.allCalls(); fmt.Sprint(after) != fmt.Sprint(calls) {
			t.Errorf("calls %v, and an hour before %v", after, calls)
		}
		stop()
	})
}

func TestARecordThatBecomesUnreadableIsSetAside(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		k := w.admit(t, "a")
		e := w.engine(t)
		stop := start(t, e)
		time.Sleep(5 * time.Second)
		w.setHook(func(c call, done bool) error {
			if c.port == "Load" && !done {
				return fmt.Errorf("record: %w", unreadableError{})
			}
			return nil
		})
		w.abort(t, k)
		time.Sleep(time.Second)
		effects := len(w.entries(k, entry.effect))
		time.Sleep(time.Hour)
		if n := len(w.entries(k, entry.effect)); n != effects {
			t.Errorf("%d effects more", n-effects)
		}
		if v, _ := e.Views().Get(k); v.Release.Reason != release.ReasonInternal || v.Live {
			t.Errorf("it is shown as %s", v.Release.Phase)
		}
		stop()
	})
}

func TestWhatIsSeenIsShownWhileTheJournalIsDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		k := w.admit(t, "a")
		e := w.engine(t)
		w.failing("Save", fmt.Errorf("save: %w", release.ErrUnavailable))
		stop := start(t, e)
		time.Sleep(30 * time.Second)
		if v, _ := e.Views().Get(k); !v.Live || time.Since(v.AsOf) > 2*maxBackoff || !strings.Contains(v.Trouble, "save") {
			t.Errorf("shown: as of %s, trouble %q", v.AsOf, v.Trouble)
		}
		stop()
	})
}
