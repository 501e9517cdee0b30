package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/shifter-dev/shifter/internal/api"
	"github.com/shifter-dev/shifter/internal/api/apitest"
	"github.com/shifter-dev/shifter/internal/release"
)

// problemOf reads an answer that must be a problem.
func problemOf(t *testing.T, rec *httptest.ResponseRecorder) api.Problem {
	t.Helper()
	if ct := rec.Header().Get("Content-Type"); ct != problemType {
		t.Errorf("content type %q, want %s: %s", ct, problemType, rec.Body)
	}
	var p api.Problem
	if err := json.Unmarshal(rec.Body.Bytes(), &p); err != nil {
		t.Fatalf("%v: %s", err, rec.Body)
	}
	if p.Status != rec.Code || p.Type != api.TypePrefix+string(p.Code) || p.Title == "" || p.Detail == "" || p.Instance == "" {
		t.Errorf("incomplete problem: %+v", p)
	}
	if strings.Contains(rec.Body.String(), "secret-internal") {
		t.Errorf("something internal reached the client: %s", rec.Body)
	}
	if p.RetryAfter > 0 && rec.Header().Get("Retry-After") != fmt.Sprint(p.RetryAfter) {
		t.Errorf("Retry-After %q, want %d", rec.Header().Get("Retry-After"), p.RetryAfter)
	}
	return p
}

func TestErrors(t *testing.T) {
	const (
		post  = "/v1/namespaces/shop/releases"
		one   = "/v1/namespaces/shop/releases/checkout-4711"
		gone  = "/v1/namespaces/shop/releases/none"
		large = 70 << 10
	)
	s := newServer(t, newWorld())
	broken := errors.New("secret-internal: dial tcp 10.0.0.1")
	for _, c := range []struct {
		name          string
		method, path  string
		body          string
		headers       []string
		world         func(*world)
		status        int
		code          api.Code
		at            string // pointer or parameter of the first finding
		finding, link string
	}{
		{name: "unknown path", method: "GET", path: "/v2/releases", status: 404, code: api.CodeNotFound},
		{name: "unknown path without a version", method: "GET", path: "/nothing", status: 404, code: api.CodeNotFound},
		{name: "encoded slash", method: "GET", path: "/assets/..%2fserver.go", status: 404, code: api.CodeNotFound},
		{name: "wrong method", method: "DELETE", path: one, status: 405, code: api.CodeMethod},
		{name: "wrong method on abort", method: "GET", path: one + "/abort", status: 405, code: api.CodeMethod},
		{name: "no such release", method: "GET", path: gone, status: 404, code: api.CodeNoRelease},
		{name: "no verdict", method: "GET", path: gone + "/verdict", status: 404, code: api.CodeNoRelease},
		{name: "no events", method: "GET", path: gone + "/events", status: 404, code: api.CodeNoRelease},
		{name: "no page", method: "GET", path: "/namespaces/shop/releases/none", status: 404, code: api.CodeNoRelease},
		{name: "nothing to abort", method: "POST", path: gone + "/abort", status: 404, code: api.CodeNoRelease},
		{name: "name form", method: "GET", path: "/v1/namespaces/shop/releases/A_B", status: 422, code: api.CodeInvalid, at: "name", finding: "nameForm"},
		{name: "namespace form", method: "GET", path: "/v1/namespaces/a..b/releases", status: 422, code: api.CodeInvalid, at: "namespace", finding: "nameForm"},
		{name: "namespace form on create", method: "POST", path: "/v1/namespaces/-x/releases", body: sound, status: 422, code: api.CodeInvalid, at: "namespace", finding: "nameForm"},
		{name: "wait form", method: "GET", path: one + "?wait=soon", status: 422, code: api.CodeInvalid, at: "wait", finding: "durationForm"},
		{name: "negative wait", method: "GET", path: one + "/verdict?wait=-1s", status: 422, code: api.CodeInvalid, at: "wait", finding: "durationForm"},
		{name: "unknown phase", method: "GET", path: "/v1/releases?phase=lost", status: 422, code: api.CodeInvalid, at: "phase", finding: "phaseUnknown"},
		{name: "unknown parameter", method: "GET", path: one + "?wiat=1s", status: 422, code: api.CodeInvalid, at: "wiat", finding: "unknownParameter"},
		{name: "misspelt dry run", method: "POST", path: post + "?dryrun=true", body: sound, status: 422, code: api.CodeInvalid, at: "dryrun", finding: "unknownParameter"},
		{name: "dry run without a value", method: "POST", path: post + "?dryRun", body: sound, status: 422, code: api.CodeInvalid, at: "dryRun", finding: "parameter"},
		{name: "dry run of another value", method: "POST", path: post + "?dryRun=yes", body: sound, status: 422, code: api.CodeInvalid, at: "dryRun", finding: "parameter"},
		{name: "dry run twice", method: "POST", path: post + "?dryRun=false&dryRun=true", body: sound, status: 422, code: api.CodeInvalid, at: "dryRun", finding: "parameter"},
		{name: "no body", method: "POST", path: post, status: 422, code: api.CodeInvalid, finding: "bodyMissing"},
		{name: "not json", method: "POST", path: post, body: "name: x", status: 422, code: api.CodeInvalid, finding: "syntax"},
		{name: "trailing garbage", method: "POST", path: post, body: sound + "x", status: 422, code: api.CodeInvalid, finding: "trailingData"},
		{name: "unknown field", method: "POST", path: post, body: `{"x": 1}`, status: 422, code: api.CodeInvalid, at: "/x", finding: "unknownField"},
		{name: "misspelt field", method: "POST", path: post, body: `{"gates": {"maxErorRate": 1}}`, status: 422, code: api.CodeInvalid, at: "/gates/maxErorRate", finding: "unknownField"},
		{name: "another casing", method: "POST", path: post, body: `{"NAME": "x"}`, status: 422, code: api.CodeInvalid, at: "/NAME", finding: "unknownField"},
		{name: "twice the same field", method: "POST", path: post, body: `{"name": "x", "name": "y"}`, status: 422, code: api.CodeInvalid, at: "/name", finding: "duplicate"},
		{name: "wrong type", method: "POST", path: post, body: `{"steps": "all"}`, status: 422, code: api.CodeInvalid, at: "/steps", finding: "wrongType"},
		{name: "unsorted steps", method: "POST", path: post, body: strings.Replace(sound, "{", `{"steps": [50, 10, 100],`, 1), status: 422, code: api.CodeInvalid, at: "/steps/1", finding: "stepsNotRising"},
		{name: "too large", method: "POST", path: post, body: `{"name": "` + strings.Repeat("x", large) + `"}`, status: 413, code: api.CodeTooLarge},
		{name: "form", method: "POST", path: post, body: sound, headers: []string{"Content-Type", "application/x-www-form-urlencoded"}, status: 415, code: api.CodeNotJSON},
		{name: "plain text", method: "POST", path: one + "/abort", body: "{}", headers: []string{"Content-Type", "text/plain"}, status: 415, code: api.CodeNotJSON},
		{name: "abort with an unknown field", method: "POST", path: one + "/abort", body: `{"traffics": "stay"}`, status: 422, code: api.CodeInvalid, at: "/traffics", finding: "unknownField"},
		{name: "abort elsewhere", method: "POST", path: one + "/abort", body: `{"traffic": "away"}`, status: 422, code: api.CodeInvalid, at: "/traffic", finding: "trafficUnknown"},
		{name: "abort softly", method: "POST", path: one + "/abort", body: `{"mode": "softly"}`, status: 422, code: api.CodeInvalid, at: "/mode", finding: "modeUnknown"},
		{name: "abort of an ended one", method: "POST", path: "/v1/namespaces/shop/releases/checkout-4698/abort", status: 409, code: api.CodeEnded},
		{
			name: "name taken", method: "POST", path: post, body: strings.Replace(sound, "checkout-5000", "checkout-4711", 1),
			status: 409, code: api.CodeExists, link: "/v1/namespaces/shop/releases/checkout-4711",
		},
		{
			name: "name of an ended one", method: "POST", path: post, body: strings.Replace(sound, "checkout-5000", "checkout-4698", 1),
			status: 409, code: api.CodeExists, link: "/v1/namespaces/shop/releases/checkout-4698",
		},
		{
			name: "route in use", method: "POST", path: post, body: sound, status: 409, code: api.CodeBusy,
			link: "/v1/namespaces/shop/releases/checkout-4711",
			world: func(w *world) {
				v := apitest.View("gating", apitest.Now())
				v.Release.Binding.Routes[0].UID = "route-orders"
				w.put(v)
			},
		},
		{
			name: "route in use, by a plan", method: "POST", path: post + "?dryRun=true", body: sound, status: 409, code: api.CodeBusy,
			link: "/v1/namespaces/shop/releases/checkout-4711",
			world: func(w *world) {
				v := apitest.View("gating", apitest.Now())
				v.Release.Binding.Routes[0].UID = "route-orders"
				w.keep(v)
				delete(w.views, v.Release.Key)
			},
		},
		{
			name: "the world says no", method: "POST", path: post, body: sound, status: 422, code: api.CodeNotSound, at: "/routes/0", finding: "noRule",
			world: func(w *world) {
				w.plan = func(release.Key, release.Spec, string) (release.Forecast, error) {
					return release.Forecast{Findings: []release.Finding{{Pointer: "/routes/0", Code: "noRule", Message: "no rule holds both tracks", Fix: "name the route that does"}}}, nil
				}
			},
		},
		{
			name: "the planner finds it in use", method: "POST", path: post, body: sound, status: 409, code: api.CodeBusy,
			world: func(w *world) {
				w.plan = func(release.Key, release.Spec, string) (release.Forecast, error) {
					return release.Forecast{}, fmt.Errorf("secret-internal: %w", release.ErrExists)
				}
			},
		},
		{name: "the planner has no answer", method: "POST", path: post, body: sound, status: 503, code: api.CodeUnavailable, world: planError(release.ErrUnavailable)},
		{name: "the planner takes too long", method: "POST", path: post, body: sound, status: 503, code: api.CodeUnavailable, world: planError(context.DeadlineExceeded)},
		{name: "the planner may not look", method: "POST", path: post, body: sound, status: 403, code: api.CodeForbidden, world: planError(release.ErrForbidden)},
		{name: "the planner fails", method: "POST", path: post, body: sound, status: 500, code: api.CodeInternal, world: planError(broken)},
		{name: "the store has no answer", method: "GET", path: gone, status: 503, code: api.CodeUnavailable, world: func(w *world) { w.loadErr = fmt.Errorf("%w: %w", broken, release.ErrUnavailable) }},
		{name: "the store has no answer to a name", method: "POST", path: post, body: sound, status: 503, code: api.CodeUnavailable, world: func(w *world) { w.loadErr = release.ErrUnavailable }},
		{name: "the store may not be asked for a name", method: "POST", path: post, body: sound, status: 403, code: api.CodeForbidden, world: func(w *world) { w.loadErr = release.ErrForbidden }},
		{name: "the store fails at a name", method: "POST", path: post, body: sound, status: 500, code: api.CodeInternal, world: func(w *world) { w.loadErr = broken }},
		{name: "a name of a record that cannot be read", method: "POST", path: post, body: sound, status: 409, code: api.CodeExists, link: "/v1/namespaces/shop/releases/checkout-5000", world: func(w *world) { w.loadErr = rubbish{} }},
		{name: "the store fails", method: "GET", path: gone, status: 500, code: api.CodeInternal, world: func(w *world) { w.loadErr = broken }},
		{name: "the store cannot list", method: "GET", path: "/v1/releases", status: 503, code: api.CodeUnavailable, world: func(w *world) { w.listErr = release.ErrUnavailable }},
		{name: "a conflict", method: "POST", path: one + "/abort", status: 409, code: api.CodeConflict, world: func(w *world) { w.loadErr = release.ErrConflict }},
		{name: "a panic", method: "GET", path: gone, status: 500, code: api.CodeInternal, world: func(w *world) { w.panicky = true }},
		{name: "a panic behind a page", method: "GET", path: "/namespaces/shop/releases/none", status: 500, code: api.CodeInternal, world: func(w *world) { w.panicky = true }},
		{name: "another site", method: "POST", path: one + "/abort", headers: []string{"Sec-Fetch-Site", "cross-site"}, status: 403, code: api.CodeCrossOrigin},
		{name: "another origin", method: "POST", path: one + "/abort", headers: []string{"Origin", "https://evil.example"}, status: 403, code: api.CodeCrossOrigin},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld().put(apitest.View("gating", apitest.Now()), apitest.View("succeeded", apitest.Now()))
			if c.world != nil {
				c.world(w)
			}
			s.releases, s.views, s.planner = w, viewsOf{w}, w
			rec := ask(s, c.method, c.path, c.body, c.headers...)
			p := problemOf(t, rec)
			if rec.Code != c.status || p.Code != c.code {
				t.Errorf("got %d %s, want %d %s: %s", rec.Code, p.Code, c.status, c.code, rec.Body)
			}
			if c.finding != "" {
				if len(p.Errors) == 0 {
					t.Fatalf("no findings: %s", rec.Body)
				}
				f := p.Errors[0]
				if f.Pointer+f.Parameter != c.at || f.Code != c.finding || f.Message == "" {
					t.Errorf("got %+v, want %s at %q", f, c.finding, c.at)
				}
			}
			if p.ActiveRelease != c.link {
				t.Errorf("link %q, want %q", p.ActiveRelease, c.link)
			}
			if w.wrote != 0 {
				t.Errorf("%d writes", w.wrote)
			}
			checkHeaders(t, rec.Header())
		})
	}
}

func planError(err error) func(*world) {
	return func(w *world) {
		w.plan = func(release.Key, release.Spec, string) (release.Forecast, error) {
			return release.Forecast{}, fmt.Errorf("secret-internal: list routes: %w", err)
		}
	}
}

func checkHeaders(t *testing.T, h http.Header) {
	t.Helper()
	for k, want := range map[string]string{
		"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
		"X-Content-Type-Options":  "nosniff",
		"Referrer-Policy":         "no-referrer",
	} {
		if got := h.Get(k); got != want {
			t.Errorf("%s is %q", k, got)
		}
	}
}

func TestAMethodThatIsNotAllowedNamesTheOnesThatAre(t *testing.T) {
	rec := ask(newServer(t, newWorld()), "PUT", "/v1/namespaces/shop/releases", "")
	if rec.Code != 405 || !strings.Contains(rec.Header().Get("Allow"), "POST") {
		t.Errorf("%d, Allow %q", rec.Code, rec.Header().Get("Allow"))
	}
}

func TestABrowserGetsAPageForAnError(t *testing.T) {
	rec := ask(newServer(t, newWorld()), "GET", "/namespaces/shop/releases/none", "", "Accept", "text/html,*/*")
	if rec.Code != 404 || !strings.HasPrefix(rec.Header().Get("Content-Type"), "text/html") || !strings.Contains(rec.Body.String(), "There is no such release") {
		t.Errorf("%d %s: %.200s", rec.Code, rec.Header().Get("Content-Type"), rec.Body)
	}
	rec = ask(newServer(t, newWorld()), "GET", "/v1/namespaces/shop/releases/none", "", "Accept", "text/html,*/*")
	problemOf(t, rec)
}
