package workload_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shifter-dev/shifter/internal/kubetest"
	"github.com/shifter-dev/shifter/internal/release"
	"github.com/shifter-dev/shifter/internal/workload"
)

func TestResolveBindsWhatIsThere(t *testing.T) {
	c := pair(t)
	b := admit(t, c.workloads(workload.Config{}))
	p := b.Tracks[release.Primary]
	if p.Namespace != "demo" || p.Deployment != "app" || p.UID == "" || p.Replicas != 2 || p.Service != "app" || p.Port != 80 ||
		p.Template.Images["app"] != "shop/app:2" || p.Template.Revision != 2 || p.UndoTo == nil || p.UndoTo.Images["app"] != "shop/app:1" || p.UndoTo.UID == "" {
		t.Errorf("the primary is %+v", p)
	}
	if x := b.Tracks[release.Canary]; x.UndoTo != nil || x.Template.Images["app"] != "shop/app:2" {
		t.Errorf("the canary is %+v, and was never anything else", x)
	}
	if n := len(c.Asked(http.MethodPut)) + len(c.Asked(http.MethodPatch)); n != 0 {
		t.Errorf("%d writes", n)
	}
}

// findings lists the findings that are joined in an error.
func findings(err error) []release.Finding {
	var many interface{ Unwrap() []error }
	var f release.Finding
	switch {
	case err == nil:
	case errors.As(err, &many):
		var out []release.Finding
		for _, e := range many.Unwrap() {
			out = append(out, findings(e)...)
		}
		return out
	case errors.As(err, &f):
		return []release.Finding{f}
	}
	return nil
}

func TestResolveNamesWhatIsWrong(t *testing.T) {
	for name, c := range map[string]struct {
		set  func(c *cluster, s *release.Spec)
		want []string
		says string
	}{
		"a Deployment that is not there": {
			func(_ *cluster, s *release.Spec) { s.Tracks[0].Deployment, s.Tracks[1].Deployment = "x", "y" },
			[]string{"/primary/deployment deploymentNotFound", "/canary/deployment deploymentNotFound"},
			"Deployment demo/x does not exist",
		},
		"a Service that is not there": {
			func(_ *cluster, s *release.Spec) { s.Tracks[1].Service = "x" },
			[]string{"/canary/service serviceNotFound"},
			"Service demo/x does not exist",
		},
		"the Service of others": {
			func(c *cluster, s *release.Spec) {
				c.put("apiVersion: v1\nkind: Service\nmetadata: {name: x}\nspec: {selector: {app: x}, ports: [{port: 80}]}\n")
				s.Tracks[1].Service = "x"
			},
			[]string{"/canary/service serviceSelectsOthers"},
			"(app=x) does not select the pods of Deployment demo/app-canary (app=app-canary)",
		},
		"a Service without a selector": {
			func(c *cluster, s *release.Spec) {
				c.put("apiVersion: v1\nkind: Service\nmetadata: {name: x}\nspec: {ports: [{port: 80}]}\n")
				s.Tracks[1].Service = "x"
			},
			[]string{"/canary/service serviceWithoutSelector"},
			"",
		},
		"another port": {
			func(_ *cluster, s *release.Spec) { s.Tracks[0].Port = 81 },
			[]string{"/primary/port servicePort"},
			"has no port 81",
		},
		"a Service of both tracks": {
			func(c *cluster, _ *release.Spec) {
				c.edit("app-canary", func(o kubetest.Object) {
					kubetest.In(template(o), "metadata", "labels")["shop"] = "yes"
				})
				c.edit("app", func(o kubetest.Object) {
					kubetest.In(template(o), "metadata", "labels")["shop"] = "yes"
				})
				c.put("apiVersion: v1\nkind: Service\nmetadata: {name: app}\nspec: {selector: {shop: \"yes\"}, ports: [{port: 80}]}\n")
				c.settle("app")
				c.settle("app-canary")
			},
			[]string{"/primary/service serviceSelectsBoth"},
			"also selects the pods of the canary",
		},
		"a Service of both tracks with subsets": {
			func(c *cluster, s *release.Spec) {
				for _, d := range []string{"app", "app-canary"} {
					c.edit(d, func(o kubetest.Object) {
						kubetest.In(template(o), "metadata", "labels")["shop"] = "yes"
					})
					c.settle(d)
				}
				c.put("apiVersion: v1\nkind: Service\nmetadata: {name: both}\nspec: {selector: {shop: \"yes\"}, ports: [{port: 80}]}\n")
				s.Tracks[0].Service, s.Tracks[0].Subset = "both", "v1"
				s.Tracks[1].Service, s.Tracks[1].Subset = "both", "v2"
			}, nil, "",
		},
		"selectors that overlap": {
			func(c *cluster, _ *release.Spec) {
				c.edit("app-canary", func(o kubetest.Object) {
					kubetest.In(template(o), "metadata", "labels")["tier"] = "web"
				})
				c.edit("app", func(o kubetest.Object) {
					kubetest.In(o, "spec")["selector"] = kubetest.Object{"matchLabels": kubetest.Object{"tier": "web"}}
					kubetest.In(template(o), "metadata", "labels")["tier"] = "web"
				})
				c.settle("app")
				c.settle("app-canary")
			},
			[]string{"/primary/deployment selectorsOverlap"},
			"(tier=web) also selects the pods of Deployment app-canary",
		},
		"a Deployment of another controller": {
			func(c *cluster, _ *release.Spec) {
				c.edit("app", func(o kubetest.Object) {
					meta(o)["ownerReferences"] = []any{kubetest.Object{"apiVersion": "flagger.app/v1beta1", "kind": "Canary", "name": "shop", "uid": "u", "controller": true}}
				})
			},
			[]string{"/primary/deployment ownedByController"},
			"controlled by Canary shop",
		},
		"the targets of other tools": {
			func(c *cluster, _ *release.Spec) {
				c.put("apiVersion: flagger.app/v1beta1\nkind: Canary\nmetadata: {name: fl}\nspec: {targetRef: {kind: Deployment, name: app}}\n")
				c.put("apiVersion: argoproj.io/v1alpha1\nkind: Rollout\nmetadata: {name: ro}\nspec: {workloadRef: {kind: Deployment, name: app-canary}}\n")
				c.put("apiVersion: argoproj.io/v1alpha1\nkind: Rollout\nmetadata: {name: else}\nspec: {workloadRef: {kind: Deployment, name: elsewhere}}\n")
			},
			[]string{"/primary/deployment ownedByController", "/canary/deployment ownedByController"},
			"Flagger's Canary fl",
		},
		"autoscalers": {
			func(c *cluster, _ *release.Spec) {
				c.put("apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: h}\nspec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: app}}\n")
				c.put("apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: s}\nspec: {scaleTargetRef: {apiVersion: apps/v1, kind: StatefulSet, name: app}}\n")
				c.put("apiVersion: keda.sh/v1alpha1\nkind: ScaledObject\nmetadata: {name: k}\nspec: {scaleTargetRef: {name: app-canary}}\n")
			},
			[]string{"/primary/deployment autoscaler", "/canary/deployment autoscaler"},
			"HorizontalPodAutoscaler h",
		},
		"paused": {
			func(c *cluster, _ *release.Spec) {
				c.edit("app", func(o kubetest.Object) { kubetest.In(o, "spec")["paused"] = true })
			},
			[]string{"/primary/deployment paused"},
			"kubectl rollout resume deployment/app -n demo",
		},
		"a template that is not rolled out": {
			func(c *cluster, _ *release.Spec) {
				c.idle = true
				c.image("app", "shop/app:3")
			},
			[]string{"/primary/deployment templateUnknown"},
			"",
		},
		"a floating image that changes": {
			func(c *cluster, _ *release.Spec) {
				c.image("app", "registry:5000/shop/app:latest")
				c.settle("app")
			},
			[]string{"/primary/deployment latestImage"},
			`between "shop/app:2" and "registry:5000/shop/app:latest"`,
		},
		"a floating image in development": {
			func(c *cluster, s *release.Spec) {
				c.image("app", "shop/app")
				c.settle("app")
				s.Preset = "dev"
			}, nil, "",
		},
		"no right to scale": {
			func(c *cluster, _ *release.Spec) {
				c.Denied = func(verb, resource string) bool { return verb == "update" && resource == "deployments/scale" }
			},
			[]string{"/primary/deployment forbidden", "/canary/deployment forbidden"},
			"shifter has no right to scale Deployment demo/app",
		},
		"no right to read": {
			func(c *cluster, _ *release.Spec) { c.deny("/replicasets", "/horizontalpodautoscalers") },
			[]string{"/primary/deployment forbidden", "/canary/deployment forbidden", "/primary/deployment forbidden"},
			"replicasets.apps in namespace demo",
		},
		"tools that may not be asked for": {
			func(c *cluster, _ *release.Spec) {
				c.deny("/scaledobjects", "/canaries", "/rollouts", "/selfsubjectaccessreviews")
			}, nil, "",
		},
		"tools that are not installed": {
			func(c *cluster, _ *release.Spec) {
				c.Intercept = func(w http.ResponseWriter, r *http.Request) bool {
					missing := strings.Contains(r.URL.Path, "keda.sh") || strings.Contains(r.URL.Path, "flagger") || strings.Contains(r.URL.Path, "argoproj")
					if missing {
						http.Error(w, "404 page not found", http.StatusNotFound)
					}
					return missing
				}
			}, nil, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			world, spec := pair(t), request()
			c.set(world, &spec)
			got, err := world.workloads(workload.Config{}).Resolve(t.Context(), "demo", spec)
			var found []string
			for _, f := range findings(err) {
				found = append(found, fmt.Sprintf("%s %s", f.Pointer, f.Code))
				if f.Fix == "" || f.Message == "" {
					t.Errorf("%+v names no way out", f)
				}
			}
			if !slices.Equal(found, c.want) {
				t.Fatalf("found %v, want %v: %v", found, c.want, err)
			}
			if err == nil != (got[0].UID != "" && got[1].UID != "") {
				t.Errorf("bound %+v", got)
			}
			if err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v does not say %q", err, c.says)
			}
		})
	}
}

// deny refuses requests by the end of their path.
func (c *cluster) deny(ends ...string) {
	c.Intercept = func(w http.ResponseWriter, r *http.Request) bool {
		denied := slices.ContainsFunc(ends, func(end string) bool { return strings.HasSuffix(r.URL.Path, end) })
		if denied {
			kubetest.Refuse(w, 403, metav1.StatusReasonForbidden, "no", &metav1.StatusDetails{Kind: "x"})
		}
		return denied
	}
}

func TestResolveWithoutAnAnswerIsNoFinding(t *testing.T) {
	for _, end := range []string{"/app", "/replicasets", "/services/app", "/rollouts"} {
		t.Run(end, func(t *testing.T) {
			c := pair(t)
			c.Intercept = func(w http.ResponseWriter, r *http.Request) bool {
				if !strings.HasSuffix(r.URL.Path, end) {
					return false
				}
				kubetest.Refuse(w, 500, metav1.StatusReasonInternalError, "no", nil)
				return true
			}
			_, err := c.workloads(workload.Config{}).Resolve(t.Context(), "demo", request())
			if !errors.Is(err, release.ErrUnavailable) || len(findings(err)) > 0 {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestUndoToIsTheNewestOlderTemplateThatDiffers(t *testing.T) {
	restarted := func(at string) func(kubetest.Object) {
		return func(o kubetest.Object) {
			kubetest.In(template(o), "metadata")["annotations"] = kubetest.Object{"kubectl.kubernetes.io/restartedAt": at}
		}
	}
	for name, c := range map[string]struct {
		set  func(c *cluster)
		want string // image, empty for none
	}{
		"the version before": {func(*cluster) {}, "shop/app:1"},
		"a restart is no version": {func(c *cluster) {
			for _, at := range []string{"1", "2"} {
				c.edit("app", restarted(at))
				c.settle("app")
			}
		}, "shop/app:1"},
		"the newest of several": {func(c *cluster) {
			c.image("app", "shop/app:3")
			c.settle("app")
		}, "shop/app:2"},
		"not the newer one, after going back": {func(c *cluster) {
			c.image("app", "shop/app:1")
			c.settle("app")
		}, "shop/app:2"},
		"not the newer one, while the controller is behind": {func(c *cluster) {
			c.idle = true
			c.image("app", "shop/app:1")
		}, ""},
		"a Deployment that keeps no history": {func(c *cluster) {
			c.edit("app", func(o kubetest.Object) { kubetest.In(o, "spec")["revisionHistoryLimit"] = int64(0) })
		}, ""},
		"a history of others": {func(c *cluster) {
			for _, s := range c.List(replicaSets) {
				if kubetest.Text(template(s), "spec", "containers", 0, "image") == "shop/app:1" {
					kubetest.In(meta(s), "ownerReferences", 0)["uid"] = "another"
					c.Put("x", replicaSets, s)
				}
			}
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			world := pair(t)
			c.set(world)
			got := admit(t, world.workloads(workload.Config{})).Tracks[release.Primary].UndoTo
			if (got == nil) != (c.want == "") || got != nil && got.Images["app"] != c.want {
				t.Errorf("an undo would lead to %+v, want %q", got, c.want)
			}
		})
	}
}
