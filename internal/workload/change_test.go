package workload_test

import (
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/shifter-dev/shifter/internal/kubetest"
	"github.com/shifter-dev/shifter/internal/release"
	"github.com/shifter-dev/shifter/internal/workload"
)

// before runs something once, right before a request with a method reaches the
// server.
func (c *cluster) before(method string, do func()) {
	var once atomic.Bool
	c.Intercept = func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == method && once.CompareAndSwap(false, true) {
			do()
		}
		return false
	}
}

func undo(b release.Binding) release.SetTemplate {
	p := b.Tracks[release.Primary]
	return release.SetTemplate{Track: release.Primary, UID: p.UID, From: p.Template, To: *p.UndoTo}
}

func scaleTo(b release.Binding, n int) release.Scale {
	return release.Scale{Track: release.Primary, UID: b.Tracks[release.Primary].UID, Replicas: n}
}

func TestScaleWritesTheSubresourceOnceAndNothingWhenItIsDone(t *testing.T) {
	c := pair(t)
	w := c.workloads(workload.Config{})
	b := admit(t, w)
	for range 2 {
		if err := w.Scale(t.Context(), scaleTo(b, 5)); err != nil {
			t.Fatal(err)
		}
	}
	puts := c.Asked(http.MethodPut)
	if len(puts) != 1 || !strings.HasSuffix(puts[0].Path, "/deployments/app/scale") || puts[0].Query.Get("fieldManager") != "shifter" || len(c.Asked(http.MethodPatch)) != 0 {
		t.Errorf("wrote %+v", puts)
	}
}

func TestScaleIsAConflictWhenSomebodyElseWritesInBetween(t *testing.T) {
	c := pair(t)
	w := c.workloads(workload.Config{})
	b := admit(t, w)
	c.before(http.MethodPut, func() {
		c.edit("app", func(o kubetest.Object) { kubetest.In(o, "spec")["replicas"] = int64(9) })
	})
	if err := w.Scale(t.Context(), scaleTo(b, 1)); !errors.Is(err, release.ErrConflict) {
		t.Fatalf("got %v", err)
	}
	if s := look(t, w, b)[0]; s.Desired.Val != 9 {
		t.Errorf("desired is %d", s.Desired.Val)
	}
}

func TestAPodThatCannotBeSparedDoesNotKeepTheSize(t *testing.T) {
	c := pair(t)
	w := c.workloads(workload.Config{})
	b := admit(t, w)
	a := scaleTo(b, 1)
	a.Spare = []string{"gone"}
	if err := w.Scale(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	if s := look(t, w, b)[0]; s.Desired.Val != 1 {
		t.Errorf("desired is %d", s.Desired.Val)
	}
}

func TestActionsOnADeploymentThatNobodyHasReadLookAgain(t *testing.T) {
	c := pair(t)
	b := admit(t, c.workloads(workload.Config{}))
	w := c.workloads(workload.Config{})
	if err := w.Scale(t.Context(), scaleTo(b, 1)); !errors.Is(err, release.ErrConflict) {
		t.Errorf("got %v", err)
	}
	if err := w.SetTemplate(t.Context(), undo(b)); !errors.Is(err, release.ErrConflict) {
		t.Errorf("got %v", err)
	}
	look(t, w, b)
	if err := w.Scale(t.Context(), scaleTo(b, 1)); err != nil {
		t.Error(err)
	}
}

func TestARecreatedDeploymentIsNotTouched(t *testing.T) {
	c := pair(t)
	w := c.workloads(workload.Config{})
	b := admit(t, w)
	c.Delete(deployments, "demo", "app")
	c.deploy("app", "shop/app:2", 2)
	if s := look(t, w, b)[0]; s.UID == b.Tracks[0].UID || s.Desired.Ok() || !strings.Contains(s.Desired.Why, "another object") {
		t.Errorf("read %+v", s)
	}
	for _, err := range []error{w.Scale(t.Context(), scaleTo(b, 0)), w.SetTemplate(t.Context(), undo(b))} {
		if !errors.Is(err, release.ErrNotFound) {
			t.Errorf("got %v", err)
		}
	}
	c.Delete(deployments, "demo", "app")
	for _, err := range []error{w.Scale(t.Context(), scaleTo(b, 0)), w.SetTemplate(t.Context(), undo(b))} {
		if !errors.Is(err, release.ErrNotFound) {
			t.Errorf("got %v", err)
		}
	}
}

func TestAnUndoTwiceStaysUndone(t *testing.T) {
	c := pair(t)
	w := c.workloads(workload.Config{})
	b := admit(t, w)
	for range 3 {
		if err := w.SetTemplate(t.Context(), undo(b)); err != nil {
			t.Fatal(err)
		}
		c.settle("app")
		got := look(t, w, b)[0].Template.Val
		if got.Hash != b.Tracks[0].UndoTo.Hash || got.UID != b.Tracks[0].UndoTo.UID || got.Images["app"] != "shop/app:1" {
			t.Fatalf("the template is %+v", got)
		}
	}
	patches := c.Asked(http.MethodPatch)
	if len(patches) != 1 || patches[0].Query.Get("fieldManager") != "shifter" || patches[0].Query.Get("fieldValidation") != "Strict" {
		t.Errorf("wrote %+v", patches)
	}
	if _, ok, _ := unstructured.NestedString(template(c.Get(deployments, "demo", "app")), "metadata", "labels", "pod-template-hash"); ok {
		t.Error("the Deployment's template has the controller's label")
	}
}

// TestAnUndoGoesToTheAdmittedTemplate follows P25: revisions move on, and the
// undo must land on what was recorded, not on what came last.
func TestAnUndoGoesToTheAdmittedTemplate(t *testing.T) {
	c := pair(t)
	w := c.workloads(workload.Config{})
	b := admit(t, w)
	c.image("app", "shop/app:3")
	c.settle("app")
	if err := w.SetTemplate(t.Context(), undo(b)); !errors.Is(err, release.ErrConflict) {
		t.Fatalf("got %v: neither the suspect nor the target is live", err)
	}
	a := undo(b)
	a.From = look(t, w, b)[0].Template.Val
	if err := w.SetTemplate(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	c.settle("app")
	if got := look(t, w, b)[0].Template.Val; got.Images["app"] != "shop/app:1" || got.Revision != 4 {
		t.Errorf("the template is %+v", got)
	}
}

func TestAnUndoIsAConflictWhenSomebodyElseWritesInBetween(t *testing.T) {
	c := pair(t)
	w := c.workloads(workload.Config{})
	b := admit(t, w)
	c.before(http.MethodPatch, func() { c.image("app", "shop/app:3") })
	if err := w.SetTemplate(t.Context(), undo(b)); !errors.Is(err, release.ErrConflict) {
		t.Fatalf("got %v", err)
	}
	c.settle("app")
	if got := look(t, w, b)[0].Template.Val; got.Images["app"] != "shop/app:3" {
		t.Errorf("the template is %+v", got)
	}
}

func TestAnUndoIsRefusedWhereItWouldNotHappen(t *testing.T) {
	t.Run("paused", func(t *testing.T) {
		c := pair(t)
		w := c.workloads(workload.Config{})
		b := admit(t, w)
		c.edit("app", func(o kubetest.Object) { kubetest.In(o, "spec")["paused"] = true })
		err := w.SetTemplate(t.Context(), undo(b))
		if !errors.Is(err, release.ErrRefused) || !strings.Contains(err.Error(), "rollout resume deployment/app -n demo") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("the history is gone", func(t *testing.T) {
		c := pair(t)
		w := c.workloads(workload.Config{})
		b := admit(t, w)
		for _, s := range c.List(replicaSets) {
			if meta(s)["uid"] == b.Tracks[0].UndoTo.UID {
				c.Delete(replicaSets, "demo", kubetest.Text(meta(s), "name"))
			}
		}
		if err := w.SetTemplate(t.Context(), undo(b)); !errors.Is(err, release.ErrNotFound) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("the controller is behind", func(t *testing.T) {
		c := pair(t)
		w := c.workloads(workload.Config{})
		b := admit(t, w)
		c.idle = true
		c.image("app", "shop/app:3")
		if err := w.SetTemplate(t.Context(), undo(b)); !errors.Is(err, release.ErrConflict) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("autoscalers", func(t *testing.T) {
		w := pair(t).workloads(workload.Config{})
		if err := w.SetFloor(t.Context(), release.SetFloor{}); !errors.Is(err, release.ErrRefused) {
			t.Errorf("got %v", err)
		}
	})
}

// TestAnUndoBringsBackAnnotationsAndKeepsThoseOfOthers compares with kubectl's,
// see undoAnnotations.
func TestAnUndoBringsBackAnnotationsAndKeepsThoseOfOthers(t *testing.T) {
	c := newCluster(t)
	c.deploy("app", "shop/app:1", 1)
	annotate := func(m kubetest.Object) {
		c.edit("app", func(o kubetest.Object) { meta(o)["annotations"] = m })
	}
	annotate(kubetest.Object{"team/config": "1", "shifter.dev/x": "old", "kubectl.kubernetes.io/last-applied-configuration": "v1"})
	c.settle("app")
	c.image("app", "shop/app:2")
	annotate(kubetest.Object{
		"team/config": "2", "shifter.dev/x": "new", "kubectl.kubernetes.io/last-applied-configuration": "v2",
		"kubernetes.io/change-cause": "to 2", "deployment.kubernetes.io/revision": "2", "added~later": "stays",
	})
	c.deploy("app-canary", "shop/app:2", 1)
	c.settle("app")
	c.settle("app-canary")
	w := c.workloads(workload.Config{})
	b := admit(t, w)
	if err := w.SetTemplate(t.Context(), undo(b)); err != nil {
		t.Fatal(err)
	}
	got := kubetest.In(meta(c.Get(deployments, "demo", "app")), "annotations")
	want := map[string]any{
		"team/config": "1", "shifter.dev/x": "new", "kubectl.kubernetes.io/last-applied-configuration": "v2",
		"deployment.kubernetes.io/revision": "2", "added~later": "stays",
	}
	if len(got) != len(want) {
		t.Errorf("annotations are %v, want %v", got, want)
	}
	for k, v := range want {
		if got[k] != v {
			t.Errorf("annotation %s is %v, want %v", k, got[k], v)
		}
	}
}

func TestAnUndoWritesBackWhatThisClientDoesNotKnow(t *testing.T) {
	c := newCluster(t)
	c.deploy("app", "shop/app:1", 1)
	c.edit("app", func(o kubetest.Object) {
		kubetest.In(template(o), "spec")["aFieldOfTheFuture"] = kubetest.Object{"a": []any{int64(1)}}
	})
	c.settle("app")
	c.edit("app", func(o kubetest.Object) { delete(kubetest.In(template(o), "spec"), "aFieldOfTheFuture") })
	c.deploy("app-canary", "shop/app:2", 1)
	c.settle("app")
	c.settle("app-canary")
	w := c.workloads(workload.Config{})
	b := admit(t, w)
	if err := w.SetTemplate(t.Context(), undo(b)); err != nil {
		t.Fatal(err)
	}
	if kubetest.In(template(c.Get(deployments, "demo", "app")), "spec")["aFieldOfTheFuture"] == nil {
		t.Error("the field is lost, so the template is neither of the two")
	}
}

func TestEveryAnswerHasItsKind(t *testing.T) {
	for name, a := range map[string]struct {
		code    int32
		reason  metav1.StatusReason
		details *metav1.StatusDetails
		want    error
	}{
		"no right":              {403, metav1.StatusReasonForbidden, &metav1.StatusDetails{Name: "app"}, release.ErrForbidden},
		"a webhook that denies": {403, "", nil, release.ErrRefused},
		"the schema":            {422, metav1.StatusReasonInvalid, &metav1.StatusDetails{Causes: []metav1.StatusCause{{Field: "spec"}}}, release.ErrRefused},
		"a failed test":         {422, metav1.StatusReasonInvalid, &metav1.StatusDetails{}, release.ErrConflict},
		"a version conflict":    {409, metav1.StatusReasonConflict, nil, release.ErrConflict},
		"deleted":               {404, metav1.StatusReasonNotFound, &metav1.StatusDetails{Name: "app"}, release.ErrNotFound},
		"out of order":          {500, metav1.StatusReasonInternalError, nil, release.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			c := pair(t)
			w := c.workloads(workload.Config{})
			b := admit(t, w)
			c.Intercept = func(rw http.ResponseWriter, r *http.Request) bool {
				if r.Method != http.MethodGet {
					kubetest.Refuse(rw, a.code, a.reason, "because", a.details)
				}
				return r.Method != http.MethodGet
			}
			for _, err := range []error{w.Scale(t.Context(), scaleTo(b, 5)), w.SetTemplate(t.Context(), undo(b))} {
				if !errors.Is(err, a.want) || !strings.Contains(err.Error(), "demo/app") {
					t.Errorf("got %v, want %v", err, a.want)
				}
			}
		})
	}
}

func TestACallThatHangsEndsAtItsOwnDeadline(t *testing.T) {
	c := pair(t)
	b := admit(t, c.workloads(workload.Config{}))
	c.Intercept = func(_ http.ResponseWriter, r *http.Request) bool {
		<-r.Context().Done()
		return true
	}
	w := c.workloads(workload.Config{Timeout: 50 * time.Millisecond})
	if _, err := w.Read(t.Context(), b); !errors.Is(err, release.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
	if err := w.Scale(t.Context(), scaleTo(b, 1)); !errors.Is(err, release.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
}

func TestWithoutTheRightToReadNothingIsKnown(t *testing.T) {
	c := pair(t)
	w := c.workloads(workload.Config{})
	b := admit(t, w)
	c.Intercept = func(rw http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/pods") {
			return false
		}
		kubetest.Refuse(rw, 403, metav1.StatusReasonForbidden, "no", &metav1.StatusDetails{Kind: "pods"})
		return true
	}
	if _, err := w.Read(t.Context(), b); !errors.Is(err, release.ErrForbidden) || !strings.Contains(err.Error(), "pods in namespace demo") {
		t.Errorf("got %v", err)
	}
}
