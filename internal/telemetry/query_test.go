package telemetry_test

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shifter-dev/shifter/internal/release"
	"github.com/shifter-dev/shifter/internal/telemetry"
)

func TestTheQueriesOfEachProvider(t *testing.T) {
	if got := telemetry.Providers(); !slices.Equal(got, []string{
		"sandbox", "envoy", "app", "app-otel", "istio", "istio-waypoint", "envoy-gateway", "linkerd", "traefik", "contour",
	}) {
		t.Fatalf("providers %v: give each a golden file", got)
	}
	eyes, latent := map[string]*telemetry.Eyes{}, map[string]*telemetry.Eyes{}
	for _, p := range telemetry.Providers() {
		for _, on := range []bool{false, true} {
			e, err := telemetry.New([]telemetry.Source{{Name: "mesh", URL: "http://prometheus:9090/prom", Provider: p, Latency: on}}, slog.Default())
			if err != nil {
				t.Fatal(err)
			}
			if on {
				latent[p] = e
			} else {
				eyes[p] = e
			}
		}
	}
	pods := [2][]string{{"echo-v1-7d9f-b", "echo-v1-7d9f-a"}, {"echo.v2-0"}}
	subsets := ask(tick(0), tick(3.5))
	subsets.Binding.Tracks = [2]release.BoundTrack{
		{Namespace: "demo", Deployment: "echo-v1", Service: "echo", Port: 80, Subset: "v1"}, {Namespace: "demo", Deployment: "echo-v2", Service: "echo", Port: 80, Subset: "v2"},
	}
	plan := ask(time.Time{}, time.Time{})
	plan.Pods = pods
	seen := ask(tick(0), tick(3.5))
	seen.Pods = pods
	onTraefik := seen
	routed(&onTraefik)
	onTraefik.Binding.Routes = append(onTraefik.Binding.Routes, release.BoundRoute{Ref: release.RouteRef{Kind: "GRPCRoute", Namespace: "demo", Name: "echo.v2--x"}})
	two := seen
	two.Binding.Tracks[1].Namespace = "demo-next"
	for name, c := range map[string]struct {
		provider string
		ask      release.Ask
	}{
		"sandbox":                {"sandbox", seen},
		"sandbox-plan":           {"sandbox", plan},
		"sandbox-two-namespaces": {"sandbox", two},
		"envoy":                  {"envoy", seen},
		"envoy-subsets":          {"envoy", subsets},
		"app":                    {"app", seen},
		"app-otel":               {"app-otel", seen},
		"istio":                  {"istio", seen},
		"istio-subsets":          {"istio", subsets},
		"istio-two-namespaces":   {"istio", two},
		"istio-waypoint":         {"istio-waypoint", seen},
		"envoy-gateway":          {"envoy-gateway", seen},
		"linkerd":                {"linkerd", seen},
		"traefik":                {"traefik", onTraefik},
		"contour":                {"contour", seen},
	} {
		for suffix, of := range map[string]map[string]*telemetry.Eyes{"": eyes, "-latency": latent} {
			t.Run(name+suffix, func(t *testing.T) {
				qs, err := of[c.provider].Queries(c.ask)
				if err != nil {
					t.Fatal(err)
				}
				var b strings.Builder
				for _, q := range qs {
					fmt.Fprintf(&b, "# %s\n%s\n", q.For, q.PromQL)
					if _, _, err := selector(q.PromQL); err != nil {
						t.Error(err)
					}
				}
				if suffix != "" && len(qs) > 3 {
					t.Errorf("%d queries a look", len(qs))
				}
				golden(t, "queries/"+name+suffix+".golden", []byte(b.String()))
			})
		}
	}
}

// A matcher over several names matches exactly these.
func TestMatchersMatchNothingElse(t *testing.T) {
	e, err := telemetry.New([]telemetry.Source{{Name: "mesh", URL: "http://p", Provider: "envoy"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	a := ask(tick(0), tick(1))
	a.Pods = [2][]string{{"a.b-0"}, {"c"}}
	qs, err := e.Queries(a)
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range qs {
		_, v, err := selector(q.PromQL)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range v.LabelMatchers {
			for value, want := range map[string]bool{
				"outbound|80||echo-v1.demo.svc.cluster.local":   true,
				"outbound|80||echo-v2.demo.svc.cluster.local":   true,
				"outbound|80||echo-v1xdemo.svc.cluster.local":   false,
				"outbound|80||echo-v1.demo.svc.cluster.local.x": false,
				"xoutbound|80||echo-v1.demo.svc.cluster.local":  false,
				"outbound": false, "80": false, "": false,
			} {
				if m.Name == "cluster_name" && m.Matches(value) != want {
					t.Errorf("%s and %q: %v", m, value, !want)
				}
			}
			for value, want := range map[string]bool{"a.b-0": true, "c": true, "axb-0": false, "cc": false, "": false} {
				if m.Name == "pod" && m.Matches(value) != want {
					t.Errorf("%s and %q: %v", m, value, !want)
				}
			}
		}
	}
}

func TestABadQuestionIsAnError(t *testing.T) {
	w := newWorld(t)
	for name, c := range map[string]struct {
		provider string
		change   func(*release.Ask)
		want     string
	}{
		"unknown source":         {"sandbox", func(a *release.Ask) { a.Binding.Metrics.Source = "moon" }, `"moon": not found among the configured ones (mesh)`},
		"unknown provider":       {"sandbox", func(a *release.Ask) { a.Binding.Metrics.Provider = "nginx" }, `provider "nginx" is not known; use one of sandbox, envoy, app`},
		"no time":                {"sandbox", func(a *release.Ask) { a.Now = time.Time{} }, "Now is zero"},
		"a regexp as service":    {"sandbox", func(a *release.Ask) { a.Binding.Tracks[1].Service = ".*" }, `the canary's Service ".*" is not a DNS label`},
		"a quote as service":     {"envoy", func(a *release.Ask) { a.Binding.Tracks[0].Service = `x"} or up{a="` }, "the primary's Service"},
		"capitals as service":    {"envoy", func(a *release.Ask) { a.Binding.Tracks[0].Service = "Echo" }, "the primary's Service"},
		"too long a service":     {"envoy", func(a *release.Ask) { a.Binding.Tracks[0].Service = strings.Repeat("x", 64) }, "the primary's Service"},
		"no service":             {"sandbox", func(a *release.Ask) { a.Binding.Tracks[0].Service = "" }, "the primary's Service"},
		"a bar as namespace":     {"envoy", func(a *release.Ask) { a.Binding.Tracks[1].Namespace = "a|b" }, "the canary's namespace"},
		"a bad subset":           {"envoy", func(a *release.Ask) { a.Binding.Tracks[1].Subset = "v2|" }, "the canary's subset"},
		"a bad pod":              {"sandbox", func(a *release.Ask) { a.Pods[1] = []string{"a-1", "b|c"} }, `the pod name "b|c" is not a DNS name`},
		"a pod of both tracks":   {"sandbox", func(a *release.Ask) { a.Pods = [2][]string{{"a"}, {"a"}} }, "pod demo/a is given for both tracks"},
		"envoy without a port":   {"envoy", func(a *release.Ask) { a.Binding.Tracks[1].Port = 0 }, `the canary: the provider envoy needs the port of Service "echo-v2"`},
		"sandbox with a subset":  {"sandbox", func(a *release.Ask) { a.Binding.Tracks[1].Subset = "v2" }, "cannot tell subsets apart"},
		"two tracks, one name":   {"sandbox", func(a *release.Ask) { a.Binding.Tracks[1].Service = "echo-v1" }, `both tracks are "demo/echo-v1"`},
		"envoy-gateway, subset":  {"envoy-gateway", func(a *release.Ask) { a.Binding.Tracks[1].Subset = "v2" }, "the canary: the provider envoy-gateway cannot tell subsets apart"},
		"contour without a port": {"contour", func(a *release.Ask) { a.Binding.Tracks[0].Port = 0 }, "the primary: the provider contour needs the port"},
		"linkerd, no deployment": {"linkerd", func(a *release.Ask) { a.Binding.Tracks[0].Deployment = "" }, "the primary: the provider linkerd counts by Deployment"},
		"subset, no deployment": {"istio", func(a *release.Ask) {
			subsets(a)
			a.Binding.Tracks[1].Deployment = `x"`
		}, "the canary: subsets are told apart by their workload"},
		"subset of unknown": {"istio", func(a *release.Ask) {
			subsets(a)
			a.Binding.Tracks[1].Deployment = "unknown"
		}, "the canary: subsets are told apart by their workload"},
		"traefik without a route": {"traefik", func(*release.Ask) {}, "none is bound"},
		"traefik on a VirtualService": {"traefik", func(a *release.Ask) {
			routed(a)
			a.Binding.Routes[0].Ref.Kind = "VirtualService"
		}, "VirtualService demo/echo is neither"},
		"traefik, a regexp as route": {"traefik", func(a *release.Ask) {
			routed(a)
			a.Binding.Routes[0].Ref.Name = ".*"
		}, "is no name of one"},
		"app with a bad service": {"app", func(a *release.Ask) { a.Binding.Tracks[1].Namespace = "-" }, "the canary's namespace"},
	} {
		t.Run(name, func(t *testing.T) {
			a := ask(tick(0), tick(1))
			c.change(&a)
			r, err := eyesOn(t, w, with(c.provider)).Look(t.Context(), a)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
			if !r.At.IsZero() || r.Trouble != "" {
				t.Errorf("reading beside an error: %+v", r)
			}
		})
	}
	if len(w.asked) > 0 {
		t.Errorf("a bad question was sent: %q", w.asked)
	}
	_, _, err := eyesOn(t, w).Scrape(release.MetricsRef{Source: "moon"})
	if !errors.Is(err, release.ErrNotFound) {
		t.Errorf("unknown source: %v", err)
	}
}

func TestASourceThatCannotWorkIsRefused(t *testing.T) {
	good := telemetry.Source{Name: "mesh", URL: "http://prometheus:9090", Provider: "envoy"}
	for name, c := range map[string]struct {
		change func(*telemetry.Source)
		want   string
	}{
		"no name":            {func(s *telemetry.Source) { s.Name = "" }, "it has no name"},
		"no provider":        {func(s *telemetry.Source) { s.Provider = "" }, `provider "" is not known; use one of sandbox, envoy, app, app-otel, istio, `},
		"unknown provider":   {func(s *telemetry.Source) { s.Provider = "nginx" }, `metrics source "mesh": provider "nginx" is not known`},
		"no URL":             {func(s *telemetry.Source) { s.URL = "" }, "must begin with http:// or https://"},
		"another scheme":     {func(s *telemetry.Source) { s.URL = "file:///etc/passwd" }, `not "file"`},
		"no host":            {func(s *telemetry.Source) { s.URL = "http:///x" }, "names no host"},
		"not a URL":          {func(s *telemetry.Source) { s.URL = "http://a b" }, "cannot be parsed"},
		"credentials":        {func(s *telemetry.Source) { s.URL = "http://u:secret@p" }, "holds credentials"},
		"a query":            {func(s *telemetry.Source) { s.URL = "http://p?x=1" }, "without a query"},
		"negative scrape":    {func(s *telemetry.Source) { s.Scrape = -1 }, "must not be negative"},
		"reach below a look": {func(s *telemetry.Source) { s.Reach = time.Second }, "less than 5 scrapes of 15s"},
		"a bad domain":       {func(s *telemetry.Source) { s.Domain = "x|y" }, "is not a DNS name"},
	} {
		t.Run(name, func(t *testing.T) {
			s := good
			c.change(&s)
			_, err := telemetry.New([]telemetry.Source{s}, nil)
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret") {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
	if _, err := telemetry.New([]telemetry.Source{good, good}, nil); err == nil || !strings.Contains(err.Error(), "used twice") {
		t.Errorf("one name twice: %v", err)
	}
	e, err := telemetry.New([]telemetry.Source{good}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if d, p, err := e.Scrape(release.MetricsRef{Source: "mesh"}); d != telemetry.DefaultScrape || p != "envoy" || err != nil {
		t.Errorf("scrape %v, provider %q, %v", d, p, err)
	}
	if _, p, err := e.Scrape(release.MetricsRef{Source: "mesh", Provider: "app"}); p != "app" || err != nil {
		t.Errorf("provider %q, %v", p, err)
	}
}

func TestEveryQueryIsAskedOnceAtTheSameTime(t *testing.T) {
	w := newWorld(t, starts("p1", "echo-v1", "0 1"), ends("p1", "echo-v1", "200", "0 1"))
	a := ask(tick(0), tick(1.5))
	a.Pods[0] = []string{"x"}
	e := eyesOn(t, w)
	look(t, e, a)
	qs, err := e.Queries(a)
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, q := range qs {
		want = append(want, q.PromQL)
	}
	slices.Sort(want)
	slices.Sort(w.asked)
	if len(want) != 4 || !slices.Equal(w.asked, want) {
		t.Errorf("asked %q, and Queries says %q", w.asked, want)
	}
	for _, q := range w.asked {
		if strings.Contains(q, "rate(") || strings.Contains(q, "increase(") {
			t.Errorf("query %s", q)
		}
	}
}
