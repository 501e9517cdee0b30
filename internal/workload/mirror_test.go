package workload_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shifter-dev/shifter/internal/kube"
	"github.com/shifter-dev/shifter/internal/kubetest"
	"github.com/shifter-dev/shifter/internal/release"
	"github.com/shifter-dev/shifter/internal/workload"
)

// timeless are states without the times of their facts.
func timeless(states [2]release.TrackState) [2]release.TrackState {
	for i := range states {
		s := &states[i]
		for _, at := range []*time.Time{&s.Desired.At, &s.Ready.At, &s.Endpoints.At, &s.Leaving.At, &s.Stale.At, &s.Floor.At, &s.Pods.At, &s.Template.At} {
			if !at.IsZero() {
				*at = time.Unix(1, 0)
			}
		}
	}
	return states
}

// alike waits until what is read from mirrors is what is read live.
func alike(t testing.TB, mirrored, live *workload.Workloads, b release.Binding) {
	t.Helper()
	var got, want [2]release.TrackState
	for end := time.Now().Add(patience); time.Now().Before(end); {
		var errs [2]error
		want, errs[0] = live.Read(t.Context(), b)
		got, errs[1] = mirrored.Read(t.Context(), b)
		if err := errors.Join(errs[:]...); err != nil {
			t.Fatal(err)
		}
		if got, want = timeless(got), timeless(want); reflect.DeepEqual(got, want) {
			return
		}
	}
	t.Fatalf("read\n%+v, live it is\n%+v", got, want)
}

// calls counts the requests that are no watches and no lists of mirrors.
func (c *cluster) calls() (n int) {
	for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodPatch} {
		for _, r := range c.Asked(method) {
			if r.Query.Get("watch") == "" {
				n++
			}
		}
	}
	return n
}

func TestReadIsAnsweredFromMirrorsWhileTheyAreCurrent(t *testing.T) {
	c := pair(t)
	w := c.workloads(workload.Config{})
	b := admit(t, w)
	c.idle = true
	before := c.calls()
	watch(t, w, b)
	for range 100 {
		if s := look(t, w, b)[0]; s.Ready.Val != 2 || s.Endpoints.Val != 2 || time.Since(s.Ready.At) > patience {
			t.Fatalf("read %+v", s)
		}
	}
	if n := c.calls() - before; n != 8 {
		t.Errorf("%d calls for 100 looks, want a list for each of 8 mirrors", n)
	}
}

// TestWhatIsReadFromMirrorsIsWhatThereIs lets the cluster live on at random, with
// watches that end, versions that are forgotten and events that come late.
func TestWhatIsReadFromMirrorsIsWhatThereIs(t *testing.T) {
	c := pair(t)
	live := c.workloads(workload.Config{})
	w := c.workloads(workload.Config{Mirrors: kube.MirrorsConfig{Patience: 20 * time.Millisecond}})
	b := admit(t, w)
	watch(t, w, b)
	seed := rand.Uint64()
	t.Logf("the seed is %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for i := range 60 {
		switch r.IntN(8) {
		case 0:
			c.Cut()
		case 1:
			c.Forget()
		case 2:
			c.Hold()
			c.step("demo", "app")
			if n := r.IntN(4); w.Scale(t.Context(), scaleTo(b, n)) == nil {
				if s := look(t, w, b)[0]; s.Desired.Val != n {
					t.Fatalf("%d: after our write of %d replicas, read %d", i, n, s.Desired.Val)
				}
			}
			c.Free()
		case 3:
			c.image("app-canary", fmt.Sprint("shop/app:", r.IntN(3)))
		case 4:
			if all := c.List(pods); len(all) > 0 {
				c.terminate(all[r.IntN(len(all))])
			}
		case 5:
			if all := c.List(pods); len(all) > 0 {
				p := all[r.IntN(len(all))]
				p["status"] = kubetest.Object{"phase": "Failed"}
				c.Put("kubelet", pods, p)
			}
		default:
			c.step("demo", "app")
			c.step("demo", "app-canary")
		}
	}
	c.settle("app")
	c.settle("app-canary")
	c.idle = true
	alike(t, w, live, b)
}

func TestAMirrorKeepsWhatAFactNeeds(t *testing.T) {
	c := written(t, podOf("a", "new", "spec: {}", "spec: {nodeName: n}", `phase: Running, conditions: [{type: Ready, status: "True"}]`,
		`phase: Running, podIP: 10.0.0.1, initContainerStatuses: [{name: init, state: {terminated: {exitCode: 1}}}], containerStatuses: [{name: app, state: {waiting: {reason: CrashLoopBackOff}}}]`)+
		slice("s", "a ready: true"))
	c.edit("app", func(o kubetest.Object) {
		meta(o)["annotations"] = kubetest.Object{"kubectl.kubernetes.io/last-applied-configuration": "{}"}
		kubetest.In(o, "spec")["paused"] = true
		o["status"] = kubetest.Object{"conditions": []any{kubetest.Object{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}}}
	})
	b := release.Binding{}
	b.Tracks[0] = release.BoundTrack{Namespace: "demo", Deployment: "app", UID: "d", Service: "app"}
	b.Tracks[1] = release.BoundTrack{Namespace: "demo", Deployment: "none", UID: "x", Service: "none"}
	w, live := c.workloads(workload.Config{}), c.workloads(workload.Config{})
	watch(t, w, b)
	alike(t, w, live, b)
	if s := look(t, w, b)[0]; len(s.Trouble) != 2 || s.Endpoints.Val != 1 {
		t.Errorf("read %+v", s)
	}
	c.Delete(deployments, "demo", "app")
	alike(t, w, live, b)
}

// TestAScaleWithoutAnAnswerIsLookedForLive loses the answer of a write that was
// taken, while no event comes.
func TestAScaleWithoutAnAnswerIsLookedForLive(t *testing.T) {
	c := pair(t)
	w := c.workloads(workload.Config{Mirrors: kube.MirrorsConfig{Patience: 20 * time.Millisecond}})
	b := admit(t, w)
	watch(t, w, b)
	look(t, w, b)
	c.idle = true
	c.Hold()
	c.Intercept = func(rw http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPut {
			return false
		}
		c.edit("app", func(o kubetest.Object) { kubetest.In(o, "spec")["replicas"] = int64(5) })
		kubetest.Refuse(rw, http.StatusGatewayTimeout, metav1.StatusReasonTimeout, "no answer", nil)
		return true
	}
	if err := w.Scale(t.Context(), scaleTo(b, 5)); !errors.Is(err, release.ErrUnavailable) {
		t.Fatal(err)
	}
	if s := look(t, w, b)[0]; s.Desired.Val != 5 {
		t.Errorf("desired is %d", s.Desired.Val)
	}
}

// TestASizeThatWasNotLookedAtIsNotChanged has somebody else scale while no event
// comes.
func TestASizeThatWasNotLookedAtIsNotChanged(t *testing.T) {
	c := pair(t)
	w := c.workloads(workload.Config{Mirrors: kube.MirrorsConfig{Patience: 2 * time.Second}})
	b := admit(t, w)
	watch(t, w, b)
	look(t, w, b)
	c.idle = true
	c.Hold()
	c.edit("app", func(o kubetest.Object) { kubetest.In(o, "spec")["replicas"] = int64(9) })
	if s := look(t, w, b)[0]; s.Desired.Val != 2 {
		t.Fatalf("desired is %d: nothing was held", s.Desired.Val)
	}
	if err := w.Scale(t.Context(), scaleTo(b, 1)); !errors.Is(err, release.ErrConflict) {
		t.Fatalf("got %v", err)
	}
	if s := look(t, w, b)[0]; s.Desired.Val != 9 {
		t.Errorf("desired is %d", s.Desired.Val)
	}
	if err := w.Scale(t.Context(), scaleTo(b, 1)); err != nil {
		t.Error(err)
	}
}

func TestWithoutTheRightToListAllIsReadLive(t *testing.T) {
	c := pair(t)
	c.Intercept = func(rw http.ResponseWriter, r *http.Request) bool {
		if !r.URL.Query().Has("fieldSelector") {
			return false
		}
		kubetest.Refuse(rw, 403, metav1.StatusReasonForbidden, "no", &metav1.StatusDetails{Kind: "deployments"})
		return true
	}
	w := c.workloads(workload.Config{})
	b := admit(t, w)
	watch(t, w, b)
	if s := look(t, w, b)[0]; s.Ready.Val != 2 {
		t.Errorf("read %+v", s)
	}
}

// BenchmarkReadOfMirrors reads a track with 20 pods and one without any.
func BenchmarkReadOfMirrors(b *testing.B) {
	var objects strings.Builder
	var points []string
	for i := range 20 {
		objects.WriteString(podOf(fmt.Sprint("p", i), "new"))
		points = append(points, fmt.Sprintf("p%d ready: true", i))
	}
	c := written(b, objects.String()+slice("s", points...))
	binding := release.Binding{}
	binding.Tracks[0] = release.BoundTrack{Namespace: "demo", Deployment: "app", UID: "d", Service: "app"}
	binding.Tracks[1] = release.BoundTrack{Namespace: "demo", Deployment: "none", UID: "x", Service: "none"}
	w := c.workloads(workload.Config{})
	watch(b, w, binding)
	for b.Loop() {
		if s, err := w.Read(b.Context(), binding); err != nil || s[0].Endpoints.Val != 20 {
			b.Fatal(s, err)
		}
	}
}
