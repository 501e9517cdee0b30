package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shifter-dev/shifter/internal/release"
)

// spy keeps every observation that the brain was asked with.
type spy struct {
	mu   sync.Mutex
	seen []release.Observation
}

func spyOn(e *Engine) *spy {
	s := &spy{}
	decide := e.brain.decide
	e.brain.decide = func(r release.Release, o release.Observation) release.Decision {
		s.mu.Lock()
		s.seen = append(s.seen, o)
		s.mu.Unlock()
		return decide(r, o)
	}
	return s
}

func (s *spy) all() []release.Observation {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]release.Observation(nil), s.seen...)
}

// failing makes every call of a port fail.
func (w *world) failing(port string, with error) {
	w.setHook(func(c call, done bool) error {
		if c.port == port && !done {
			return with
		}
		return nil
	})
}

func TestAPortThatFailsIsUnknownAndNeverZero(t *testing.T) {
	t.Parallel()
	down := fmt.Errorf("dial: %w", release.ErrUnavailable)
	for _, c := range []struct {
		port  string
		check func(release.Observation) string
	}{
		{"Router.Read", func(o release.Observation) string {
			s := o.Routes[0]
			if len(o.Routes) != 1 || s.Split.Ok() || s.Accepted.Ok() || s.Epoch.Ok() || s.Marked.Ok() || !strings.Contains(s.Split.Why, "dial") {
				return fmt.Sprintf("routes %+v", o.Routes)
			}
			if !o.Tracks[0].Ready.Ok() {
				return "the tracks are unknown too"
			}
			return unreachable(o)
		}},
		{"Workloads.Read", func(o release.Observation) string {
			for _, s := range o.Tracks {
				for _, f := range []release.Fact[int]{s.Desired, s.Ready, s.Endpoints, s.Leaving, s.Stale, s.Floor} {
					if f.Ok() || !strings.Contains(f.Why, "dial") {
						return fmt.Sprintf("track %+v", s)
					}
				}
				if s.Pods.Ok() || s.Template.Ok() {
					return fmt.Sprintf("track %+v", s)
				}
			}
			if !o.Routes[0].Split.Ok() {
				return "the routes are unknown too"
			}
			return unreachable(o)
		}},
		{"Look", func(o release.Observation) string {
			if !strings.Contains(o.Trouble, "dial") || o.Unreachable != "" || !o.Routes[0].Split.Ok() {
				return fmt.Sprintf("trouble %q, unreachable %q", o.Trouble, o.Unreachable)
			}
			return ""
		}},
	} {
		t.Run(c.port, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				w.admit(t, "a")
				w.failing(c.port, down)
				e := w.engine(t)
				s := spyOn(e)
				stop := start(t, e)
				time.Sleep(20 * time.Second)
				stop()
				seen := s.all()
				if len(seen) < 3 {
					t.Fatalf("%d decisions", len(seen))
				}
				for _, o := range seen {
					if bad := c.check(o); bad != "" {
						t.Fatalf("%s failed: %s", c.port, bad)
					}
				}
				if n := w.count("SetShare"); n > 0 && c.port != "Look" {
					t.Errorf("%d weights were written", n)
				}
			})
		})
	}
}

func unreachable(o release.Observation) string {
	if !strings.Contains(o.Unreachable, "dial") {
		return fmt.Sprintf("unreachable is %q", o.Unreachable)
	}
	return ""
}

// halfRouter answers without some of the routes.
type halfRouter struct{ router }

func (halfRouter) Read(context.Context, release.Binding) ([]release.RouteState, error) {
	return nil, nil
}

func TestAnAnswerWithoutSomeOfTheRoutesIsNoAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.admit(t, "a")
		e := w.engine(t)
		e.cfg.Router = halfRouter{router{w}}
		s := spyOn(e)
		stop := start(t, e)
		time.Sleep(5 * time.Second)
		stop()
		for _, o := range s.all() {
			if len(o.Routes) != 1 || o.Routes[0].Split.Ok() || o.Unreachable == "" {
				t.Fatalf("routes %+v, unreachable %q", o.Routes, o.Unreachable)
			}
		}
	})
}

func TestACallThatHangsIsGivenUpAfterItsDeadlineAndIsUnknown(t *testing.T) {
	t.Parallel()
	for _, port := range []string{"Router.Read", "Workloads.Read", "Look", "Load", "Save", "List", "Mark", "SetShare", "Scale"} {
		t.Run(port, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				k := w.admit(t, "a")
				hung := 0
				w.setHook(func(c call, done bool) error {
					if c.port != port || done || hung == 2 {
						return nil
					}
					hung++
					began := time.Now()
					<-c.ctx.Done()
					if took := time.Since(began); took > MaxCall {
						t.Errorf("%s was given up after %s", port, took)
					}
					return fmt.Errorf("%s: %w", port, release.ErrUnavailable)
				})
				stop := start(t, w.engine(t))
				r := w.finish(t, k)
				stop()
				succeeded(t, w, k, r)
				if hung == 0 {
					t.Error("it never hung")
				}
			})
		})
	}
}

func TestTheEngineStopsWhileACallHangs(t *testing.T) {
	t.Parallel()
	for _, port := range []string{"Router.Read", "Workloads.Read", "Look", "Load", "Save", "List", "Watch", "Mark"} {
		t.Run(port, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				w.admit(t, "a")
				w.setHook(func(c call, done bool) error {
					if c.port == port && !done {
						<-c.ctx.Done()
						return c.ctx.Err()
					}
					return nil
				})
				stop := start(t, w.engine(t))
				time.Sleep(time.Second)
				began := time.Now()
				stop()
				if took := time.Since(began); took > 0 {
					t.Errorf("it took %s to stop", took)
				}
			})
		})
	}
}

func TestRefusalsReachTheBrainAndAreNotTriedInALoop(t *testing.T) {
	t.Parallel()
	for want, err := range map[release.ErrKind]error{
		release.ErrKindRefused:     release.ErrRefused,
		release.ErrKindForbidden:   release.ErrForbidden,
		release.ErrKindFenced:      release.ErrFenced,
		release.ErrKindNotFound:    release.ErrNotFound,
		release.ErrKindUnavailable: errors.New("something else"),
	} {
		t.Run(string(want), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				w.admit(t, "a")
				w.failing("SetShare", fmt.Errorf("patch route: %w", err))
				e := w.engine(t)
				s := spyOn(e)
				stop := start(t, e)
				time.Sleep(25 * time.Second)
				stop()
				told := 0
				for _, o := range s.all() {
					if len(o.Failed) > 1 {
						t.Fatalf("of one turn: %+v", o.Failed)
					}
					for _, f := range o.Failed {
						if f.Kind != "SetShare" || f.Err != want || !strings.Contains(f.Text, "patch route") || f.At.IsZero() {
							t.Fatalf("failed: %+v", f)
						}
						told++
					}
				}
				if n := w.count("SetShare"); told == 0 || told < n-1 || n > 15 {
					t.Errorf("%d writes were refused in 25 s, and the brain was told of %d", n, told)
				}
			})
		})
	}
}

func TestAConflictIsLookedAtAtOnceAndThenWithPatience(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		k := w.admit(t, "a")
		w.failing("SetShare", fmt.Errorf("patch route: %w", release.ErrConflict))
		e := w.engine(t)
		s := spyOn(e)
		stop := start(t, e)
		time.Sleep(20 * time.Second)
		stop()
		for _, o := range s.all() {
			if len(o.Failed) > 0 {
				t.Fatalf("a conflict was told as a failure: %+v", o.Failed)
			}
		}
		tries := w.entries(k, func(e entry) bool { return e.port == "SetShare" })
		if len(tries) < 4 || len(tries) > 15 {
			t.Fatalf("%d tries in 20 s", len(tries))
		}
		if gap := tries[1].at.Sub(tries[0].at); gap > 0 {
			t.Errorf("the second try came %s after the first", gap)
		}
		for i := 2; i < len(tries); i++ {
			if gap := tries[i].at.Sub(tries[i-1].at); gap < minBackoff || gap > maxBackoff {
				t.Errorf("try %d came %s after the one before", i+1, gap)
			}
		}
		// Between two tries the world was always looked at again.
		looked := w.entries(k, func(e entry) bool { return e.port == "Router.Read" })
		if len(looked) < 2*len(tries) {
			t.Errorf("%d tries and %d looks at the route", len(tries), len(looked))
		}
	})
}

func TestWhatIsNotPermittedIsNotDone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.admit(t, "a")
		e := w.engine(t)
		e.brain.permit = func(_ release.Release, _ release.Observation, a release.Action) error {
			if _, ok := a.(release.SetShare); ok {
				return errors.New("I2: no")
			}
			return nil
		}
		stop := start(t, e)
		time.Sleep(30 * time.Second)
		stop()
		if n := w.count("SetShare"); n > 0 {
			t.Errorf("%d weights were written", n)
		}
		if n := w.count("Save"); n > 20 {
			t.Errorf("%d saves in 30 s", n)
		}
	})
}

func TestTheBackOffStaysWithinItsBounds(t *testing.T) {
	t.Parallel()
	for n := 1; n < 100; n++ {
		if d := backoff(n); d < minBackoff || d > maxBackoff {
			t.Errorf("back-off %d is %s", n, d)
		}
	}
	if backoff(60) < maxBackoff/2 {
		t.Error("it does not grow")
	}
}

// brokenWatcher fails in each way that a watcher can.
type brokenWatcher struct {
	*world
	times int
}

func (b *brokenWatcher) Watch(context.Context, release.Binding) (<-chan struct{}, error) {
	switch b.times++; b.times % 3 {
	case 0:
		panic("the watcher is broken")
	case 1:
		return nil, errors.New("no watch")
	}
	c := make(chan struct{})
	close(c)
	return c, nil
}

func TestNoReleaseDependsOnAWatcher(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		k := w.admit(t, "a")
		e := w.engine(t)
		b := &brokenWatcher{world: w}
		e.cfg.Watchers = []Watcher{b}
		stop := start(t, e)
		r := w.finish(t, k)
		stop()
		succeeded(t, w, k, r)
		if b.times < 3 || b.times > 30 {
			t.Errorf("it was asked %d times", b.times)
		}
	})
}
