package workload_test

import (
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/shifter-dev/shifter/internal/kubetest"
	"github.com/shifter-dev/shifter/internal/release"
	"github.com/shifter-dev/shifter/internal/workload"
)

// written is a cluster without a controller: what a test writes is what there
// is. The Deployment app has UID d and the ReplicaSets new (live, revision 2) and
// old.
func written(t testing.TB, more string) *cluster {
	t.Helper()
	c := newCluster(t)
	c.idle = true
	c.put(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: app, uid: d}
spec:
  replicas: 2
  selector: {matchLabels: {app: app}}
  template: {metadata: {labels: {app: app}}, spec: {initContainers: [{name: init, image: "i:1"}], containers: [{name: app, image: "a:2"}]}}
---
` + set("new", "d", 2, "a:2") + set("old", "d", 1, "a:1") + more)
	return c
}

func set(name, owner string, revision int, image string) string {
	return fmt.Sprintf(`
apiVersion: apps/v1
kind: ReplicaSet
metadata:
  name: %[1]s
  uid: rs-%[1]s
  labels: {app: app, pod-template-hash: h-%[1]s}
  annotations: {deployment.kubernetes.io/revision: "%[3]d"}
  ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: app, uid: %[2]s, controller: true}]
spec:
  template: {metadata: {creationTimestamp: null, labels: {app: app, pod-template-hash: h-%[1]s}}, spec: {initContainers: [{name: init, image: "i:1"}], containers: [{name: app, image: "%[4]s"}]}}
---
`, name, owner, revision, image)
}

// podOf is a running pod; edits replace parts of its text.
func podOf(name, set string, edits ...string) string {
	text := fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata:
  name: %[1]s
  uid: pod-%[1]s
  labels: {app: app}
  ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: %[2]s, uid: rs-%[2]s, controller: true}]
spec: {}
status: {phase: Running, conditions: [{type: Ready, status: "True"}]}
---
`, name, set)
	return strings.NewReplacer(edits...).Replace(text)
}

// leaving makes a pod terminate; it may still be ready.
var leaving = []string{"  uid: pod", "  deletionTimestamp: \"2026-11-01T00:00:00Z\"\n  uid: pod"}

func slice(name string, pods ...string) string {
	text := "\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\naddressType: IPv4\nmetadata: {name: " + name + ", labels: {kubernetes.io/service-name: app}}\nendpoints:"
	for _, p := range pods {
		uid, conds, _ := strings.Cut(p, " ")
		text += "\n- {addresses: [10.0.0.1], conditions: {" + conds + "}, targetRef: {kind: Pod, uid: pod-" + uid + "}}"
	}
	return text + "\n---\n"
}

// oneTrack reads the Deployment app as the primary.
func oneTrack(t *testing.T, c *cluster) release.TrackState {
	t.Helper()
	b := release.Binding{}
	b.Tracks[0] = release.BoundTrack{Namespace: "demo", Deployment: "app", UID: "d", Service: "app"}
	b.Tracks[1] = release.BoundTrack{Namespace: "demo", Deployment: "none", UID: "x", Service: "none"}
	got := look(t, c.workloads(workload.Config{}), b)
	if got[1].Desired.Ok() || got[1].Desired.Why == "" || got[1].Trouble != nil {
		t.Errorf("a Deployment that is not there is read as %+v", got[1])
	}
	return got[0]
}

func TestFacts(t *testing.T) {
	live := release.Template{Hash: "h-new", UID: "rs-new", Revision: 2, Images: map[string]string{"init": "i:1", "app": "a:2"}}
	type counts struct{ ready, endpoints, leaving, stale, pods int }
	for name, c := range map[string]struct {
		objects string
		want    counts
		check   func(t *testing.T, s release.TrackState)
	}{
		"no pods": {"", counts{}, func(t *testing.T, s release.TrackState) {
			if s.Desired.Val != 2 || s.UID != "d" || !reflect.DeepEqual(s.Template.Val, live) || s.Floor.Val != -1 || !s.Floor.Ok() {
				t.Errorf("read %+v", s)
			}
		}},
		"ready pods with endpoints": {podOf("a", "new") + podOf("b", "new") + slice("s", "a ready: true", "b ready: true"), counts{2, 2, 0, 0, 2}, nil},
		"endpoints come after readiness": {
			podOf("a", "new") + slice("s", "a ready: false"), counts{1, 0, 0, 0, 1}, nil,
		},
		"absent endpoint conditions count as ready": {podOf("a", "new") + slice("s", "a "), counts{1, 1, 0, 0, 1}, nil},
		"a pod in slices of two families counts once": {
			podOf("a", "new") + slice("v4", "a ready: true") + slice("v6", "a ready: true"), counts{1, 1, 0, 0, 1}, nil,
		},
		"endpoints of other pods do not count": {podOf("a", "new") + slice("s", "z ready: true"), counts{1, 0, 0, 0, 1}, nil},
		"a pod that leaves is named, and neither ready nor an endpoint nor stale": {
			podOf("a", "old", leaving...) + slice("s", "a ready: true, terminating: true"), counts{0, 0, 1, 0, 1}, nil,
		},
		"a pod that leaves is no endpoint although a slice says so still": {
			podOf("a", "new", leaving...) + slice("s", "a ready: true"), counts{0, 0, 1, 0, 1}, nil,
		},
		"a pod of the old template is stale": {podOf("a", "old") + podOf("b", "new"), counts{2, 0, 0, 1, 2}, nil},
		"a pod that is not ready": {
			podOf("a", "new", `"True"`, `"False"`), counts{0, 0, 0, 0, 1}, nil,
		},
		"pods that have ended are not there": {
			podOf("a", "new", "Running", "Failed") + podOf("b", "new", "Running", "Succeeded"), counts{}, nil,
		},
		"pods that the selector reaches and another set controls are others": {
			set("other", "elsewhere", 1, "a:1") + podOf("a", "other") + podOf("b", "unknown") + slice("s", "a ready: true"), counts{}, func(t *testing.T, s release.TrackState) {
				if len(s.History) != 2 {
					t.Errorf("the history is %v", s.History)
				}
			},
		},
		"a pod without a controller is another": {
			podOf("a", "new", "controller: true", "controller: false"), counts{}, nil,
		},
		"the history is by revision": {set("older", "d", 10, "a:0"), counts{}, func(t *testing.T, s release.TrackState) {
			var got []string
			for _, h := range s.History {
				got = append(got, fmt.Sprint(h.Revision, h.Hash))
			}
			if !slices.Equal(got, []string{"10h-older", "2h-new", "1h-old"}) {
				t.Errorf("the history is %v", got)
			}
		}},
		"of two sets with the template the older one is live": {set("twin", "d", 3, "a:2"), counts{}, func(t *testing.T, s release.TrackState) {
			if s.Template.Val.Hash != "h-new" {
				t.Errorf("the template is %+v", s.Template)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := oneTrack(t, written(t, c.objects))
			got := counts{s.Ready.Val, s.Endpoints.Val, s.Leaving.Val, s.Stale.Val, len(s.Pods.Val)}
			if got != c.want {
				t.Errorf("read %+v, want %+v", got, c.want)
			}
			if c.check != nil {
				c.check(t, s)
			}
		})
	}
}

func TestATemplateWithoutItsReplicaSetIsUnknownAndAllPodsAreStale(t *testing.T) {
	c := written(t, podOf("a", "new"))
	c.image("app", "a:3")
	s := oneTrack(t, c)
	if s.Template.Ok() || s.Template.Why == "" || s.Stale.Val != 1 || !s.Stale.Ok() {
		t.Errorf("read %+v", s)
	}
}

// TestAHashIsThatOfTheTemplateWhateverElseChanges changes what is no part of a
// version.
func TestAHashIsThatOfTheTemplateWhateverElseChanges(t *testing.T) {
	c := written(t, "")
	c.edit("app", func(o kubetest.Object) {
		kubetest.In(o, "spec")["replicas"] = int64(7)
		kubetest.In(o, "spec")["strategy"] = kubetest.Object{"type": "Recreate"}
		meta(o)["annotations"] = kubetest.Object{"a": "b"}
	})
	if s := oneTrack(t, c); s.Template.Val.Hash != "h-new" || s.Desired.Val != 7 {
		t.Errorf("read %+v", s)
	}
	c.edit("app", func(o kubetest.Object) {
		kubetest.In(template(o), "spec")["aFieldOfTheFuture"] = "x"
	})
	if s := oneTrack(t, c); s.Template.Ok() {
		t.Errorf("two templates that differ in a field that this client does not know are one: %+v", s.Template)
	}
}

func TestListsAreReadPageByPageAndByLabel(t *testing.T) {
	var all strings.Builder
	for i := range 501 {
		all.WriteString(podOf(fmt.Sprintf("p%03d", i), "new"))
	}
	c := written(t, all.String())
	if s := oneTrack(t, c); s.Ready.Val != 501 {
		t.Errorf("%d pods are ready", s.Ready.Val)
	}
	pages := 0
	for _, r := range c.Asked(http.MethodGet) {
		if strings.HasSuffix(r.Path, "/app") || strings.HasSuffix(r.Path, "/none") {
			continue
		}
		if r.Query.Get("labelSelector") == "" || r.Query.Get("limit") != "500" || !strings.Contains(r.Path, "/namespaces/demo/") {
			t.Errorf("read %s %v", r.Path, r.Query)
		}
		if strings.HasSuffix(r.Path, "/pods") {
			pages++
		}
	}
	if pages != 2 {
		t.Errorf("%d pages of pods", pages)
	}
	if n := len(c.Asked(http.MethodGet)); n != 6 {
		t.Errorf("%d reads for one track, one page more, and one that is not there", n)
	}
}

func TestTrouble(t *testing.T) {
	// The clock of the test is real: a pod is young or it is not.
	const old, young = `creationTimestamp: "2026-01-01T00:00:00Z"`, `creationTimestamp: "2099-01-01T00:00:00Z"`
	sick := func(age, status string) string {
		return podOf("a", "new", "  uid: pod", "  "+age+"\n  uid: pod", `phase: Running, conditions: [{type: Ready, status: "True"}]`, status)
	}
	waiting := func(list, reason, more string) string {
		return `phase: Pending, ` + list + `: [{name: app, state: {waiting: {reason: ` + reason + `, message: "because"}}` + more + `}]`
	}
	running := func(since string) string {
		return `phase: Running, conditions: [{type: Ready, status: "False", reason: ContainersNotReady, message: "unready: app"}], containerStatuses: [{name: app, state: {running: {startedAt: "` + since + `"}}}]`
	}
	failing := func(message string) string {
		return strings.Replace(set("new", "d", 2, "a:2"), "spec:", "status: {conditions: [{type: ReplicaFailure, status: \"True\", reason: FailedCreate, message: '"+message+"'}]}\nspec:", 1)
	}
	const terminal, retryable = release.TroubleTerminal, release.TroubleRetryable
	for name, c := range map[string]struct {
		objects string
		kind    release.TroubleKind // empty: none
		reason  string
		says    string
	}{
		"a healthy pod":                   {podOf("a", "new"), "", "", ""},
		"a pod that leaves":               {podOf("a", "new", append(slices.Clone(leaving), `"True"`, `"False"`)...), "", "", ""},
		"containers being made":           {sick(young, waiting("containerStatuses", "ContainerCreating", "")), "", "", ""},
		"an image that is not there yet":  {sick(young, waiting("containerStatuses", "ErrImagePull", "")), retryable, "ErrImagePull", "container app: because"},
		"an image that is not there":      {sick(old, waiting("containerStatuses", "ImagePullBackOff", "")), terminal, "ImagePullBackOff", ""},
		"an image without a proper name":  {sick(young, waiting("containerStatuses", "InvalidImageName", "")), terminal, "InvalidImageName", ""},
		"an image that is never pulled":   {sick(young, waiting("containerStatuses", "ErrImageNeverPull", "")), terminal, "ErrImageNeverPull", ""},
		"a missing ConfigMap":             {sick(young, waiting("containerStatuses", "CreateContainerConfigError", "")), terminal, "CreateContainerConfigError", ""},
		"a crash loop":                    {sick(old, waiting("containerStatuses", "CrashLoopBackOff", `, lastState: {terminated: {exitCode: 137, reason: OOMKilled, message: "secret of the log"}}`)), retryable, "CrashLoopBackOff", "exit code 137 (OOMKilled)"},
		"an init container":               {sick(old, waiting("initContainerStatuses", "CrashLoopBackOff", "")), retryable, "CrashLoopBackOff", ""},
		"a hook":                          {sick(old, waiting("containerStatuses", "PostStartHookError", "")), retryable, "PostStartHookError", ""},
		"a container that has just ended": {sick(old, `phase: Running, containerStatuses: [{name: app, state: {terminated: {exitCode: 2, reason: Error}}}]`), retryable, "Error", "container app ended with exit code 2 (Error)"},
		"no node":                         {sick(old, `phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: Unschedulable, message: "0/3 nodes are available: 3 Insufficient cpu."}]`), retryable, "Unschedulable", "3 Insufficient cpu"},
		"a scheduling gate":               {sick(old, `phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: SchedulingGated, message: "gated"}]`), retryable, "SchedulingGated", ""},
		"unready for long":                {sick(old, running("2026-01-01T00:00:00Z")), retryable, "ContainersNotReady", "unready: app"},
		"unready at first":                {sick(old, running("2099-01-01T00:00:00Z")), "", "", ""},
		"quota":                           {failing(`pods "a" is forbidden: exceeded quota: q`), terminal, "FailedCreate", "exceeded quota"},
		"a webhook that denies":           {failing(`admission webhook "x" denied the request: no`), terminal, "FailedCreate", ""},
		"a webhook that cannot be asked":  {failing(`Internal error occurred: failed calling webhook "x"`), retryable, "FailedCreate", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := oneTrack(t, written(t, c.objects)).Trouble
			if c.kind == "" {
				if len(got) > 0 {
					t.Errorf("found %+v", got)
				}
				return
			}
			if len(got) != 1 || got[0].Kind != c.kind || got[0].Reason != c.reason || !strings.Contains(got[0].Message, c.says) || got[0].Template != "h-new" {
				t.Fatalf("found %+v, want %s %s", got, c.kind, c.reason)
			}
			if strings.Contains(got[0].Message, "secret") || (got[0].Pod == "") != (c.reason == "FailedCreate") {
				t.Errorf("found %+v", got)
			}
		})
	}
	t.Run("the worst comes first, and the list ends", func(t *testing.T) {
		var all strings.Builder
		for i := range 12 {
			all.WriteString(strings.NewReplacer("name: a\n", fmt.Sprintf("name: a%d\n", i)).Replace(sick(old, waiting("containerStatuses", "CrashLoopBackOff", ""))))
		}
		all.WriteString(failing("exceeded quota"))
		got := oneTrack(t, written(t, all.String())).Trouble
		if len(got) != 10 || got[0].Reason != "FailedCreate" {
			t.Errorf("found %+v", got)
		}
	})
	t.Run("a rollout that gave up", func(t *testing.T) {
		c := written(t, "")
		c.edit("app", func(o kubetest.Object) {
			o["status"] = kubetest.Object{"conditions": []any{kubetest.Object{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "late"}}}
		})
		if got := oneTrack(t, c).Trouble; len(got) != 1 || got[0].Reason != "ProgressDeadlineExceeded" || got[0].Template != "h-new" {
			t.Errorf("found %+v", got)
		}
	})
}

func TestADeploymentWithoutASelectorIsNotRead(t *testing.T) {
	c := newCluster(t)
	c.idle = true
	c.put("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: app, uid: d}\nspec: {selector: {}}\n")
	b := release.Binding{}
	b.Tracks[0] = release.BoundTrack{Namespace: "demo", Deployment: "app", UID: "d"}
	if _, err := c.workloads(workload.Config{}).Read(t.Context(), b); err == nil {
		t.Error("it was read, with every pod of the namespace")
	}
}
