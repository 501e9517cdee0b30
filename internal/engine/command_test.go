package engine

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shifter-dev/shifter/internal/release"
)

// abort sends the wish to go back, as the front door would.
func (w *world) abort(t testing.TB, k release.Key) {
	t.Helper()
	if err := w.sendAbort(k); err != nil {
		t.Error(err)
	}
}

func (w *world) sendAbort(k release.Key) error {
	_, err := w.Append(context.Background(), k, release.Command{
		Verb: release.VerbAbort, Traffic: release.TrafficBack, Mode: release.ModeImmediate, Subject: "bob", At: time.Now(),
	})
	return err
}

// aborted checks that a release ended as asked, and that nothing raised the
// primary's share after the abort was consumed.
func aborted(t testing.TB, w *world, k release.Key, r release.Release) {
	t.Helper()
	if s := w.releases[k]; r.Phase != release.Aborted || s.split[0] != (release.Pair{Canary: 100}) || s.marked != "" {
		t.Errorf("ended %s (%s) at %v, marked %q: %s", r.Phase, r.Reason, s.split, s.marked, r.Message)
	}
	w.checkEffects(t, k)
	consumed := false
	for _, e := range w.entries(k, func(entry) bool { return true }) {
		consumed = consumed || e.port == "Save" && e.err == nil && e.saved.Consumed > 0
		a, ok := e.action.(release.SetShare)
		if consumed && ok && e.err == nil && a.To[0].Primary > a.From[0].Primary {
			t.Errorf("I9: %s after the abort was consumed", a)
		}
	}
	if !consumed {
		t.Error("the abort was not consumed")
	}
}

// onSave runs f around the nth save of a release that a filter lets through.
func onSave(w *world, n int, before bool, f func()) {
	seen := 0
	w.setHook(func(c call, done bool) error {
		if c.port != "Save" || done == before {
			return nil
		}
		if seen++; seen == n {
			f()
		}
		return nil
	})
}

func TestACommandThatArrivesDuringASaveIsTakenAndTheDecisionMadeAgain(t *testing.T) {
	t.Parallel()
	for n := 2; n <= 6; n++ {
		t.Run(fmt.Sprint("at save ", n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				k := w.admit(t, "a")
				onSave(w, n, true, func() { w.abort(t, k) })
				stop := start(t, w.engine(t))
				r := w.finish(t, k)
				stop()
				aborted(t, w, k, r)
				conflicts := w.entries(k, func(e entry) bool { return e.port == "Save" && errors.Is(e.err, release.ErrConflict) })
				if len(conflicts) != 1 {
					t.Fatalf("%d conflicts", len(conflicts))
				}
				next := w.entries(k, func(e entry) bool { return e.port == "Save" && e.err == nil && !e.at.Before(conflicts[0].at) })
				if len(next) == 0 || next[0].at != conflicts[0].at || next[0].saved.Consumed != 1 {
					t.Errorf("the command was not in the next save at once: %+v", next)
				}
			})
		})
	}
}

func TestACommandThatArrivesBetweenSaveAndWriteStopsTheRaise(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		k := w.admit(t, "a")
		onSave(w, 3, false, func() { w.abort(t, k) }) // the intent to raise from 10 to 25 is saved
		stop := start(t, w.engine(t))
		r := w.finish(t, k)
		stop()
		aborted(t, w, k, r)
		if got := w.written(k); len(got) != 2 || got[0] != 10 || got[1] != 0 {
			t.Errorf("shares written: %v", got)
		}
	})
}

func TestACommandIsServedAtOnceWhileTheTelemetryHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		k := w.admit(t, "a")
		stop := start(t, w.engine(t))
		for len(w.written(k)) < 3 {
			time.Sleep(time.Second)
		}
		w.setHook(func(c call, done bool) error {
			if c.port == "Look" && !done {
				<-c.ctx.Done()
				return c.ctx.Err()
			}
			return nil
		})
		time.Sleep(5500 * time.Millisecond) // within a look
		asked := time.Now()
		w.abort(t, k)
		for len(w.written(k)) < 4 {
			time.Sleep(10 * time.Millisecond)
		}
		if took := time.Since(asked); took > 10*time.Millisecond {
			t.Errorf("the weights were written %s after the abort", took)
		}
		w.setHook(nil)
		r := w.finish(t, k)
		stop()
		aborted(t, w, k, r)
	})
}

func TestACommandWakesASleepingRelease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		k := w.admit(t, "a")
		w.releases[k].tracks[release.Primary].stuck = 4 // so that it waits for pods
		stop := start(t, w.engine(t))
		time.Sleep(3*time.Second + 100*time.Millisecond)
		w.abort(t, k)
		synctest.Wait()
		if r := w.record(k); r.Consumed != 1 {
			t.Errorf("the command waits, in %s", r.Phase)
		}
		stop()
	})
}
