package routing_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shifter-dev/shifter/internal/kubetest"
	"github.com/shifter-dev/shifter/internal/release"
	"github.com/shifter-dev/shifter/internal/routing"
)

func TestResolveBindsARouteAsItIs(t *testing.T) {
	s := cluster(t, httpRoute)
	s.Edit("kubectl", httpRoutes, "demo", "app", func(o kubetest.Object) {
		kubetest.In(o, "metadata")["annotations"] = kubetest.Object{routing.EpochAnnotation: "41"}
	})
	got, err := routes(t, s, routing.Config{}).Resolve(t.Context(), "demo", request("HTTPRoute"))
	if err != nil || len(got) != 1 {
		t.Fatalf("got %v, %v", got, err)
	}
	b := got[0]
	if b.Ref.Namespace != "demo" || b.UID == "" || !slices.Equal(b.Rules, []string{"live"}) || !slices.Equal(b.Split, []release.Pair{none}) ||
		b.Accepted != release.AcceptedYes || b.Epoch != 41 || b.Timeout != 15*time.Second {
		t.Errorf("bound %+v", b)
	}
	if n := len(s.Asked(http.MethodPatch)); n != 0 {
		t.Errorf("%d writes", n)
	}
}

func TestResolveNamesWhatIsWrongWithEveryRoute(t *testing.T) {
	grant := `
apiVersion: gateway.networking.k8s.io/v1beta1
kind: ReferenceGrant
metadata: {name: g, namespace: demo}
spec:
  from: [{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: infra}]
  to: [{group: "", kind: Service, name: app-stable}]
`
	elsewhere := strings.NewReplacer("namespace: demo", "namespace: infra", `group: ""`, `namespace: demo, group: ""`).Replace(httpRoute)
	for name, c := range map[string]struct {
		objects []string
		routes  []release.RouteRef
		set     func(*kubetest.Server)
		want    []string
		says    string
	}{
		"not there": {
			routes: []release.RouteRef{{Kind: "HTTPRoute", Name: "app"}, {Kind: "VirtualService", Name: "app", Namespace: "x"}},
			want:   []string{"/routes/0/name routeNotFound", "/routes/1/name routeNotFound"},
			says:   "HTTPRoute demo/app does not exist",
		},
		"a kind that nobody knows": {
			routes: []release.RouteRef{{Kind: "TCPRoute", Name: "app"}},
			want:   []string{"/routes/0/kind routeKind"}, says: "use HTTPRoute",
		},
		"no CRD": {
			routes: []release.RouteRef{{Kind: "HTTPRoute", Name: "app"}, {Kind: "VirtualService", Name: "app"}},
			set: func(s *kubetest.Server) {
				s.Intercept = func(w http.ResponseWriter, _ *http.Request) bool {
					http.Error(w, "404 page not found", http.StatusNotFound)
					return true
				}
			},
			want: []string{"/routes/0/kind kindNotServed", "/routes/1/kind kindNotServed"}, says: "install the Gateway API",
		},
		"no right to read": {
			routes: []release.RouteRef{{Kind: "HTTPRoute", Name: "app"}},
			set: func(s *kubetest.Server) {
				s.Intercept = func(w http.ResponseWriter, _ *http.Request) bool {
					kubetest.Refuse(w, 403, metav1.StatusReasonForbidden, "no", &metav1.StatusDetails{Name: "app"})
					return true
				}
			},
			want: []string{"/routes/0/name forbidden"}, says: "httproutes.gateway.networking.k8s.io in namespace demo",
		},
		"no right to write": {
			objects: []string{httpRoute},
			routes:  []release.RouteRef{{Kind: "HTTPRoute", Name: "app"}},
			set: func(s *kubetest.Server) {
				s.Denied = func(verb, resource string) bool { return verb == "patch" && resource == "httproutes" }
			},
			want: []string{"/routes/0 forbidden"}, says: "grant shifter's service account patch",
		},
		"another pair": {
			objects: []string{strings.ReplaceAll(httpRoute, "app-canary", "app-next")},
			routes:  []release.RouteRef{{Kind: "HTTPRoute", Name: "app"}},
			want:    []string{"/routes/0 backendNotInRoute"}, says: "demo/app-next:80",
		},
		"one of two grants": {
			objects: []string{elsewhere, grant},
			routes:  []release.RouteRef{{Kind: "HTTPRoute", Name: "app", Namespace: "infra"}},
			want:    []string{"/routes/0 referenceGrant"}, says: "create a ReferenceGrant in namespace demo from HTTPRoute in namespace infra to Service app-canary",
		},
		"a grant for all": {
			objects: []string{elsewhere, strings.Replace(grant, ", name: app-stable", "", 1)},
			routes:  []release.RouteRef{{Kind: "HTTPRoute", Name: "app", Namespace: "infra"}},
		},
		"reviews and grants that cannot be asked for": {
			objects: []string{elsewhere},
			routes:  []release.RouteRef{{Kind: "HTTPRoute", Name: "app", Namespace: "infra"}},
			set: func(s *kubetest.Server) {
				s.Intercept = func(w http.ResponseWriter, r *http.Request) bool {
					if strings.HasSuffix(r.URL.Path, "/app") {
						return false
					}
					kubetest.Refuse(w, 403, metav1.StatusReasonForbidden, "no", nil)
					return true
				}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := cluster(t, c.objects...)
			if c.set != nil {
				c.set(s)
			}
			spec := request("HTTPRoute")
			spec.Routes = c.routes
			bound, err := routes(t, s, routing.Config{}).Resolve(t.Context(), "demo", spec)
			wantFindings(t, err, c.want...)
			if err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v does not say %q", err, c.says)
			}
			if err == nil && len(bound) != len(c.routes) || err != nil && bound != nil {
				t.Errorf("bound %v", bound)
			}
		})
	}
}

func TestResolveWithoutAnAnswerIsNoFinding(t *testing.T) {
	s := cluster(t, httpRoute)
	s.Intercept = func(w http.ResponseWriter, _ *http.Request) bool {
		kubetest.Refuse(w, 503, metav1.StatusReasonServiceUnavailable, "later", nil)
		return true
	}
	_, err := routes(t, s, routing.Config{Timeout: 50 * time.Millisecond}).Resolve(t.Context(), "demo", request("HTTPRoute"))
	if !errors.Is(err, release.ErrUnavailable) || len(findings(err)) > 0 {
		t.Errorf("got %v", err)
	}
}
