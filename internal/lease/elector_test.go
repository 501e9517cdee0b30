package lease_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shifter-dev/shifter/internal/kubetest"
	"github.com/shifter-dev/shifter/internal/lease"
)

// inTime runs a test over an API server in a time of its own.
func inTime(t *testing.T, test func(t *testing.T, s *kubetest.Server)) {
	t.Helper()
	s := kubetest.New(t, leases)
	synctest.Test(t, func(t *testing.T) { test(t, s) })
}

// two stands two replicas, the first of which leads.
func two(t *testing.T, s *kubetest.Server) (a, b *replica) {
	t.Helper()
	a = stand(t, s, "a")
	until(t, "a leads", time.Second, a.leads)
	b = stand(t, s, "b")
	until(t, "b knows who leads", time.Second, func() bool { return b.State().Holder == "a" })
	return a, b
}

func TestOneOfTwoLeads(t *testing.T) {
	inTime(t, func(t *testing.T, s *kubetest.Server) {
		a, b := two(t, s)
		time.Sleep(10 * time.Minute)
		if !a.leads() || b.leads() || !a.State().Leading || b.State().Leading {
			t.Errorf("a leads %v, b leads %v", a.leads(), b.leads())
		}
		if n := len(s.Asked(http.MethodPut)); n < 300 || n > 380 {
			t.Errorf("the Lease was renewed %d times in ten minutes", n)
		}
		if got := spec(s); got["holderIdentity"] != "a" || got["leaseDurationSeconds"] != int64(15) || got["leaseTransitions"] != int64(0) {
			t.Errorf("the Lease says %v", got)
		}
	})
}

// dies cuts a holder off in some way, and checks who leads when.
func dies(t *testing.T, s *kubetest.Server, before, after func(*http.Request) error) {
	t.Helper()
	a, b := two(t, s)
	a.lag = 4 * time.Second
	time.Sleep(time.Minute)
	a.way.hook(before, after)
	at := time.Now()
	until(t, "b leads", time.Minute, b.leads)
	<-a.terminated
	told, ended, taken := a.at(&a.told).Sub(at), a.at(&a.ended).Sub(at), b.at(&b.began).Sub(at)
	t.Logf("the holder was told to stop after %s, had stopped after %s; the other led after %s", told, ended, taken)
	if told > lease.Deadline || ended >= taken || !errors.Is(a.err, lease.ErrLost) {
		t.Errorf("it ended with %v", a.err)
	}
	if before != nil && (taken < lease.Duration-lease.Retry || taken > lease.Duration+lease.Retry) {
		t.Errorf("the other led after %s", taken)
	}
	if got := spec(s); got["holderIdentity"] != "b" || got["leaseTransitions"] != int64(1) {
		t.Errorf("the Lease says %v", got)
	}
}

func TestAHolderThatIsCutOffHasStoppedBeforeAnotherLeads(t *testing.T) {
	inTime(t, func(t *testing.T, s *kubetest.Server) { dies(t, s, cut, nil) })
}

func TestAHolderWhoseServerHangsHasStoppedBeforeAnotherLeads(t *testing.T) {
	inTime(t, func(t *testing.T, s *kubetest.Server) { dies(t, s, hang, nil) })
}

func TestAHolderWhoseRenewalsComeBackToNobodyStopsThough(t *testing.T) {
	inTime(t, func(t *testing.T, s *kubetest.Server) {
		a, b := two(t, s)
		time.Sleep(time.Minute)
		a.way.hook(nil, cut) // what it writes is done, and it never hears so
		at := time.Now()
		<-a.terminated
		if told := a.at(&a.told).Sub(at); told > lease.Deadline || b.leads() || a.State().Leading || !errors.Is(a.State().Err, lease.ErrLost) {
			t.Errorf("it was told to stop after %s; the other leads: %v", told, b.leads())
		}
		until(t, "b leads", 30*time.Second, b.leads)
	})
}

func TestATransportThatIsStuckDoesNotKeepTheWorkGoing(t *testing.T) {
	inTime(t, func(t *testing.T, s *kubetest.Server) {
		a, _ := two(t, s)
		free := make(chan struct{})
		a.way.hook(func(*http.Request) error { <-free; return errCut }, nil)
		at := time.Now()
		<-a.terminated
		if told := a.at(&a.told).Sub(at); told > lease.Deadline || !errors.Is(a.err, lease.ErrLost) {
			t.Errorf("told to stop after %s, with %v", told, a.err)
		}
		close(free)
	})
}

func TestAHolderLivesThroughAShortTrouble(t *testing.T) {
	inTime(t, func(t *testing.T, s *kubetest.Server) {
		a, b := two(t, s)
		for range 20 {
			a.way.hook(hang, nil)
			time.Sleep(4 * time.Second)
			a.way.hook(nil, func(r *http.Request) error { // late answers
				select {
				case <-r.Context().Done():
				case <-time.After(time.Second):
				}
				return r.Context().Err()
			})
			time.Sleep(20 * time.Second)
		}
		if !a.leads() || b.leads() {
			t.Errorf("a leads %v, b leads %v: %v", a.leads(), b.leads(), a.State().Err)
		}
	})
}

func TestAGracefulStopHandsOverWhenTheWorkHasStopped(t *testing.T) {
	inTime(t, func(t *testing.T, s *kubetest.Server) {
		a, b := two(t, s)
		a.lag = 20 * time.Second // it goes on renewing meanwhile
		a.stop()
		<-a.terminated
		if b.leads() || a.err != nil {
			t.Errorf("b leads before a has stopped, or %v", a.err)
		}
		until(t, "b leads", time.Minute, b.leads)
		over := b.at(&b.began).Sub(a.at(&a.ended))
		t.Logf("taken over %s after the work had stopped", over)
		if over > lease.Retry {
			t.Errorf("it took %s", over)
		}
	})
}

func TestAReleaseGetsOverAConflictAndAHolderThatEndsByItself(t *testing.T) {
	inTime(t, func(t *testing.T, s *kubetest.Server) {
		a := stand(t, s, "a")
		until(t, "a leads", time.Second, a.leads)
		s.Edit("kubectl", leases, ns, "shifter", func(o kubetest.Object) {
			kubetest.In(o, "metadata")["labels"] = kubetest.Object{"team": "edge"}
		})
		a.stop()
		<-a.terminated
		if got := spec(s); got["holderIdentity"] != "" || a.err != nil || a.State().Leading {
			t.Errorf("not released: %v, %v", got, a.err)
		}
		failed := errors.New("no more")
		err := a.Run(t.Context(), func(context.Context) error { return failed })
		if got := spec(s); !errors.Is(err, failed) || got["holderIdentity"] != "" {
			t.Errorf("it ended with %v, the Lease says %v", err, got)
		}
	})
}

func TestWorkThatDoesNotStopIsLeftBehind(t *testing.T) {
	inTime(t, func(t *testing.T, s *kubetest.Server) {
		a, b := two(t, s)
		a.lag = 10 * time.Minute
		a.way.hook(cut, nil)
		until(t, "Run returns", 16*time.Second, func() bool { return !a.at(&a.returned).IsZero() })
		if b.leads() || !errors.Is(a.err, lease.ErrLost) {
			t.Errorf("it ended with %v", a.err)
		}
		time.Sleep(10 * time.Minute)
	})
}

func TestWhoIsToldToStopBeforeItHoldsAnythingStops(t *testing.T) {
	inTime(t, func(t *testing.T, s *kubetest.Server) {
		a, b := two(t, s)
		b.stop()
		<-b.terminated
		if b.err != nil || !b.at(&b.began).IsZero() || !a.leads() {
			t.Errorf("it ended with %v", b.err)
		}
	})
}

func TestAStopInTheMiddleOfTakingLeavesNoHolder(t *testing.T) {
	inTime(t, func(t *testing.T, s *kubetest.Server) {
		a := stand(t, s, "a")
		a.way.hook(nil, func(r *http.Request) error { // done, and answered late
			if r.Method != http.MethodPost {
				return nil
			}
			a.stop()
			select {
			case <-r.Context().Done():
				return r.Context().Err()
			case <-time.After(time.Second):
				return nil
			}
		})
		<-a.terminated
		if got := spec(s); a.err != nil || got["holderIdentity"] != "" {
			t.Errorf("it ended with %v, the Lease says %v", a.err, got)
		}
	})
}

func TestAHolderThatNeverHeardThatItIsOneFindsOut(t *testing.T) {
	inTime(t, func(t *testing.T, s *kubetest.Server) {
		a := stand(t, s, "a")
		a.way.hook(nil, func(r *http.Request) error {
			if r.Method != http.MethodPost {
				return nil
			}
			return errLate
		})
		until(t, "a leads", lease.Retry, a.leads)
	})
}

func TestTheHolderGoesByItsNameOnly(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(s *kubetest.Server)
		lost string // empty: it leads on
	}{
		"a label":                {edit: set("metadata", "labels", kubetest.Object{"team": "edge"})},
		"a clock that is ahead":  {edit: set("spec", "renewTime", "2100-01-01T00:00:00.000000Z")},
		"a clock that is behind": {edit: set("spec", "renewTime", "1990-01-01T00:00:00.000000Z")},
		"no times":               {edit: set("spec", "renewTime", nil)},
		"a duration":             {edit: set("spec", "leaseDurationSeconds", int64(1))},
		"another name":           {set("spec", "holderIdentity", "c"), "held by c"},
		"no name":                {set("spec", "holderIdentity", ""), "name out of it"},
		"no string":              {set("spec", "holderIdentity", int64(7)), "unreadable"},
		"no spec": {func(s *kubetest.Server) {
			s.Edit("kubectl", leases, ns, "shifter", func(o kubetest.Object) { delete(o, "spec") })
		}, "name out of it"},
		"deleted": {func(s *kubetest.Server) { s.Delete(leases, ns, "shifter") }, "deleted"},
		"deleted and made anew": {func(s *kubetest.Server) {
			s.Delete(leases, ns, "shifter")
			s.Put("c", leases, object(kubetest.Object{"holderIdentity": "c"}))
		}, "held by c"},
	} {
		t.Run(name, func(t *testing.T) {
			inTime(t, func(t *testing.T, s *kubetest.Server) {
				a := stand(t, s, "a")
				until(t, "a leads", time.Second, a.leads)
				for range 3 {
					time.Sleep(9 * time.Second)
					c.edit(s)
					if c.lost != "" {
						break
					}
				}
				at := time.Now()
				time.Sleep(time.Minute)
				if c.lost == "" {
					if !a.leads() || spec(s)["leaseTransitions"] != int64(0) {
						t.Errorf("it ended with %v, the Lease says %v", a.err, spec(s))
					}
					return
				}
				if told := a.at(&a.told).Sub(at); told > lease.Retry || a.leads() || !errors.Is(a.err, lease.ErrLost) || !strings.Contains(a.err.Error(), c.lost) {
					t.Errorf("after %s it ended with %v", told, a.err)
				}
			})
		})
	}
}

// object is the Lease; nil is no spec.
func object(spec kubetest.Object) kubetest.Object {
	o := kubetest.Object{
		"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
		"metadata": kubetest.Object{"name": "shifter", "namespace": ns},
	}
	if spec != nil {
		o["spec"] = spec
	}
	return o
}

func set(part, field string, value any) func(s *kubetest.Server) {
	return func(s *kubetest.Server) {
		s.Edit("kubectl", leases, ns, "shifter", func(o kubetest.Object) {
			in := kubetest.In(o, part)
			if value == nil {
				delete(in, field)
			} else {
				in[field] = value
			}
		})
	}
}

func TestALeaseOfNobodyIsTakenWhateverItSays(t *testing.T) {
	for name, c := range map[string]struct {
		spec        kubetest.Object
		least, most time.Duration
	}{
		"nothing":             {nil, 0, 0},
		"no holder":           {kubetest.Object{"holderIdentity": "", "leaseDurationSeconds": int64(9999)}, 0, 0},
		"a holder alone":      {kubetest.Object{"holderIdentity": "x"}, lease.Duration, lease.Duration},
		"a holder's clock":    {kubetest.Object{"holderIdentity": "x", "leaseDurationSeconds": int64(15), "renewTime": "2100-01-01T00:00:00.000000Z"}, lease.Duration, lease.Duration},
		"long ago":            {kubetest.Object{"holderIdentity": "x", "leaseDurationSeconds": int64(15), "renewTime": "1990-01-01T00:00:00.000000Z"}, lease.Duration, lease.Duration},
		"a time that is none": {kubetest.Object{"holderIdentity": "x", "renewTime": int64(4), "acquireTime": "soon", "leaseTransitions": "many"}, lease.Duration, lease.Duration},
		"less than no time":   {kubetest.Object{"holderIdentity": "x", "leaseDurationSeconds": int64(-9), "leaseTransitions": int64(-3)}, lease.Duration, lease.Duration},
		"longer than ours":    {kubetest.Object{"holderIdentity": "x", "leaseDurationSeconds": int64(30)}, 30 * time.Second, 30 * time.Second},
		"for ever":            {kubetest.Object{"holderIdentity": "x", "leaseDurationSeconds": int64(1 << 62)}, time.Minute, time.Minute},
		"a holder of numbers": {kubetest.Object{"holderIdentity": int64(4)}, lease.Duration, lease.Duration},
	} {
		t.Run(name, func(t *testing.T) {
			inTime(t, func(t *testing.T, s *kubetest.Server) {
				s.Put("kubectl", leases, object(c.spec))
				at := time.Now()
				a := stand(t, s, "a")
				until(t, "a leads", 2*time.Minute, a.leads)
				if after := a.at(&a.began).Sub(at); after < c.least || after > c.most+lease.Retry {
					t.Errorf("taken after %s, not between %s and %s", after, c.least, c.most)
				}
				time.Sleep(time.Minute)
				if got := spec(s); !a.leads() || got["holderIdentity"] != "a" || got["leaseDurationSeconds"] != int64(15) || got["leaseTransitions"] != int64(1) && c.spec["leaseTransitions"] == nil {
					t.Errorf("the Lease says %v", got)
				}
			})
		})
	}
}

func TestWhatIsMissingIsNamedWithTheWayOut(t *testing.T) {
	for name, c := range map[string]struct {
		method, reason string
		verb           string
	}{
		"get":    {http.MethodGet, "Forbidden", "get leases"},
		"create": {http.MethodPost, "Forbidden", "create leases"},
		"update": {http.MethodPut, "Forbidden", "update leases"},
		"home":   {http.MethodPost, "", "kubectl create namespace shifter"},
	} {
		t.Run(name, func(t *testing.T) {
			s := kubetest.New(t, leases)
			granted := make(chan struct{})
			s.Intercept = func(w http.ResponseWriter, r *http.Request) bool {
				select {
				case <-granted:
					return false
				default:
				}
				if r.Method != c.method || c.reason == "" {
					return false
				}
				kubetest.Refuse(w, http.StatusForbidden, metav1.StatusReasonForbidden, "leases is forbidden", &metav1.StatusDetails{Kind: "leases"})
				return true
			}
			s.NoNamespace = func(string) bool {
				select {
				case <-granted:
					return false
				default:
					return c.reason == ""
				}
			}
			if c.method == http.MethodPut {
				s.Put("x", leases, object(kubetest.Object{"holderIdentity": ""}))
			}
			synctest.Test(t, func(t *testing.T) {
				a := stand(t, s, "a")
				until(t, "it says why", time.Minute, func() bool { return a.State().Err != nil })
				err := a.State().Err.Error()
				if !strings.Contains(err, c.verb) || !strings.Contains(err, "namespace shifter") || a.leads() {
					t.Errorf("it says %v", err)
				}
				close(granted)
				until(t, "a leads", time.Minute, a.leads)
				if a.State().Err != nil {
					t.Errorf("it says %v", a.State().Err)
				}
			})
		})
	}
}

func TestAnElectorIsNotMadeOfNonsense(t *testing.T) {
	for name, c := range map[string]lease.Config{
		"nobody":     {Namespace: ns, Name: "shifter"},
		"no time":    {Namespace: ns, Name: "shifter", Identity: "a", Duration: lease.Deadline},
		"less still": {Namespace: ns, Name: "shifter", Identity: "a", Retry: lease.Deadline},
		"going back": {Namespace: ns, Name: "shifter", Identity: "a", Retry: -1},
	} {
		if _, err := lease.New(nil, c); err == nil {
			t.Errorf("%s: it was made", name)
		}
	}
}
