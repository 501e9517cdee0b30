//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// half is a route that has one of the two backends.
const half = `apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: half}
spec:
  rules:
    - name: main
      backendRefs: [{name: checkout, port: 80}]
`

// reader is a shifter's account that may keep records of its own, and see all
// else, but change nothing. NS is the namespace of the records.
const reader = `apiVersion: v1
kind: ServiceAccount
metadata: {name: reader}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: records}
rules:
- {apiGroups: [""], resources: [configmaps, events], verbs: ["*"]}
- {apiGroups: [coordination.k8s.io], resources: [leases], verbs: [get, create, update]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: records}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: records}
subjects: [{kind: ServiceAccount, name: reader, namespace: NS}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: NS}
rules: [{apiGroups: ["*"], resources: ["*"], verbs: [get, list, watch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: NS}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: NS}
subjects: [{kind: ServiceAccount, name: reader, namespace: NS}]
`

// refusals are the scenes of one test, in which nothing may be written.
type refusals struct {
	t         *testing.T
	good, bad string // namespaces
	count     int
}

// TestRefusals asks for what cannot be, of the real thing: each answer names what
// is wrong and the way out, nothing is written, and others are served on.
func TestRefusals(t *testing.T) {
	t.Parallel()
	began := time.Now()
	r := &refusals{t: t, good: "e2e-refusals", bad: "e2e-refused"}
	r.scenes()
	since := time.Now()
	shifter := r.start("refusals", suite.kubeconfig, suite.prometheus)

	q := httpRoute.request("no-route")
	q.Routes[0].Name = "nowhere"
	r.refuse(shifter, r.bad, q, "HTTPRoute", r.bad+"/nowhere")

	q = httpRoute.request("half-a-route")
	q.Routes[0].Name = "half"
	r.refuse(shifter, r.bad, q, r.bad+"/half", canary)

	q = httpRoute.request("no-deployment")
	q.Primary.Deployment = "nowhere"
	r.refuse(shifter, r.bad, q, "Deployment", r.bad+"/nowhere")

	q = httpRoute.request("no-kind")
	q.Routes[0].Kind = "GRPCRoute"
	if served(t, "grpcroutes") {
		t.Log("this cluster serves GRPCRoutes: what happens where a kind is not served was not tried")
	} else {
		r.refuse(shifter, r.bad, q, "GRPCRoute")
	}

	weak := r.start("refusals-reader", readerConfig(t, "shifter-refusals-reader"), suite.prometheus)
	r.refuse(weak, r.good, httpRoute.request("no-right"), "right to patch", r.good+"/checkout")
	r.refuse(weak, r.good, httpRoute.request("no-right"), "right to scale", r.good+"/checkout")

	blind := r.start("refusals-blind", suite.kubeconfig, "http://127.0.0.1:9")
	r.refuse(blind, r.good, httpRoute.request("no-telemetry"), "telemetry", `metrics source "default"`)

	r.accept(shifter, httpRoute.request("good"))
	r.wantNoWrites(since)
	wantClusterMissed(t)
	t.Logf("e2e-report %s", jsonOf(map[string]any{
		"scenario": "refusals", "refused": r.count, "wallSeconds": time.Since(began).Round(100 * time.Millisecond).Seconds(),
	}))
}

// scenes makes a good scene with traffic, and one without pods for what is
// refused before they matter.
func (r *refusals) scenes() {
	r.t.Helper()
	namespace(r.t, r.good)
	namespace(r.t, r.bad)
	scene(r.t, r.good, httpRoute)
	apply(r.t, r.bad, edit(r.t, manifest(r.t, "tracks"), "replicas: 4", "replicas: 0"), manifest(r.t, httpRoute.manifest), half)
	client{r.good}.send(r.t, rps)
}

// start starts a shifter with records of its own.
func (r *refusals) start(name, kubeconfig, prometheus string) *process {
	r.t.Helper()
	own := "shifter-" + name
	if name != "refusals-reader" { // that one has been made, with the account in it
		namespace(r.t, own)
	}
	return start(r.t, house{name: name, own: own, kubeconfig: kubeconfig, prometheus: prometheus})
}

// refuse posts a request and checks that the answer is a problem, with a finding
// that names all that is said, and a way out.
func (r *refusals) refuse(p *process, ns string, q request, names ...string) {
	r.t.Helper()
	code, raw, err := p.call(r.t.Context(), "POST", releasesOf(ns), q)
	if err != nil {
		r.t.Fatal(err)
	}
	var got problem
	if err := json.Unmarshal(raw, &got); err != nil || code < 400 || got.Status != code || got.Code == "" || got.Title == "" {
		r.t.Errorf("%s: the answer is no problem: %d %s", q.Name, code, raw)
		return
	}
	i := slices.IndexFunc(got.Errors, func(f finding) bool {
		return f.Fix != "" && !slices.ContainsFunc(names, func(name string) bool { return !strings.Contains(f.Message, name) })
	})
	if i < 0 {
		r.t.Errorf("%s: no finding names %q and a way out: %s", q.Name, names, raw)
		return
	}
	r.count++
	r.t.Logf("%s: %s (%s)", q.Name, got.Errors[i].Message, got.Errors[i].Fix)
}

// accept checks that a good request is still planned, and not carried out.
func (r *refusals) accept(p *process, q request) {
	r.t.Helper()
	until(r.t, time.Minute, "a plan of a good release", func(ctx context.Context) (bool, string) {
		code, body, err := p.call(ctx, "POST", releasesOf(r.good)+"?dryRun=true", q)
		return code == http.StatusOK, fmt.Sprintf("%d %s %v", code, body, err)
	})
}

// wantNoWrites checks that no shifter wrote anything to the scenes.
func (r *refusals) wantNoWrites(since time.Time) {
	r.t.Helper()
	calls := callsOf(r.t, since, time.Now(), r.good, r.bad)
	for _, c := range calls {
		if c.writes() {
			r.t.Errorf("shifter wrote to what it had refused: %s", jsonOf(c))
		}
	}
	if suite.auditLog != "" && len(calls) == 0 {
		r.t.Error("the audit log has no call of shifter at all: nothing was counted")
	}
}

// served reports whether the cluster knows a resource of the Gateway API.
func served(t *testing.T, resource string) bool {
	t.Helper()
	missing, err := suite.api.missing(t.Context(), httpRoute.path+"/"+resource+"?limit=1")
	if err != nil && !missing {
		t.Fatal(err)
	}
	return !missing
}

// readerConfig makes the reader's account, in a namespace of its own, and returns
// the path of its kubeconfig.
func readerConfig(t *testing.T, ns string) string {
	t.Helper()
	namespace(t, ns)
	t.Cleanup(func() {
		ctx, cancel := lately(t, time.Minute)
		defer cancel()
		for _, kind := range []string{"clusterrolebindings", "clusterroles"} {
			if err := suite.api.do(ctx, "DELETE", "/apis/rbac.authorization.k8s.io/v1/"+kind+"/"+ns, "", nil); err != nil && !isMissing(err) {
				t.Error(err)
			}
		}
	})
	apply(t, ns, strings.ReplaceAll(reader, "NS", ns))
	var answer struct {
		Status struct {
			Token string `json:"token"`
		} `json:"status"`
	}
	err := suite.api.do(t.Context(), "POST", "/api/v1/namespaces/"+ns+"/serviceaccounts/reader/token",
		`{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"expirationSeconds":3600}}`, &answer)
	if err != nil || answer.Status.Token == "" {
		t.Fatalf("a token for the reader: %v", err)
	}
	path := suite.program(ns + ".kubeconfig")
	if err := suite.access.as("reader", answer.Status.Token).write(path); err != nil {
		t.Fatal(err)
	}
	return path
}

// wantClusterMissed starts a shifter over an API server that is not there, and
// checks that it says so, with the address.
func wantClusterMissed(t *testing.T) {
	t.Helper()
	path := suite.program("nowhere.kubeconfig")
	if err := suite.access.at("https://127.0.0.1:9").write(path); err != nil {
		t.Fatal(err)
	}
	p := launch(t, house{name: "refusals-nowhere", own: "shifter-refusals-nowhere", kubeconfig: path, prometheus: suite.prometheus})
	complaint := regexp.MustCompile(`(?m)^.*(err|refused|dial|answer).*127\.0\.0\.1:9\b.*$`)
	until(t, 20*time.Second, "a word of shifter about the API server that does not answer, with its address", func(context.Context) (bool, string) {
		p.excused = p.over()
		return p.said.says(complaint), p.tail()
	})
}
