package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shifter-dev/shifter/internal/api"
	"github.com/shifter-dev/shifter/internal/api/apitest"
	"github.com/shifter-dev/shifter/internal/release"
)

func decode[T any](t *testing.T, b []byte) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	return v
}

func TestCreate(t *testing.T) {
	w := newWorld()
	s := newServer(t, w, func(c *Config) {
		c.Subject = func(r *http.Request) (string, error) { return "ci/" + r.Header.Get("X-Who"), nil }
	})
	rec := ask(s, "POST", "/v1/namespaces/shop/releases", sound, "X-Who", "mira")
	if rec.Code != 202 {
		t.Fatalf("%d %s", rec.Code, rec.Body)
	}
	r := decode[api.Release](t, rec.Body.Bytes())
	if rec.Header().Get("Location") != r.Links.Self || r.Links.Self != "/v1/namespaces/shop/releases/checkout-5000" || rec.Header().Get("Retry-After") != "5" {
		t.Errorf("headers %v", rec.Header())
	}
	if r.Status.Phase != "pending" || r.Subject != "ci/mira" || r.Status.Live || len(r.Warnings) != 1 || r.Warnings[0].Code != "latestTag" {
		t.Errorf("answer %s", rec.Body)
	}
	if w.wrote != 1 {
		t.Errorf("%d writes", w.wrote)
	}
	// It can be asked for at once, though nobody runs it yet.
	rec = ask(s, "GET", r.Links.Self, "")
	if got := decode[api.Release](t, rec.Body.Bytes()); rec.Code != 200 || got.Status.Live || got.Name != "checkout-5000" {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
	// The same name again, and another name on the same route.
	problemOf(t, ask(s, "POST", "/v1/namespaces/shop/releases", sound))
	p := problemOf(t, ask(s, "POST", "/v1/namespaces/shop/releases", strings.Replace(sound, "checkout-5000", "other", 1)))
	if p.Code != api.CodeBusy || p.ActiveRelease != r.Links.Self || !p.Retryable {
		t.Errorf("%+v", p)
	}
	if w.wrote != 1 {
		t.Errorf("%d writes", w.wrote)
	}
}

func TestLinksBeginWithThePublicURL(t *testing.T) {
	s := newServer(t, newWorld(), func(c *Config) { c.URL = "https://shifter.example/" })
	rec := ask(s, "POST", "/v1/namespaces/shop/releases", sound)
	if got := rec.Header().Get("Location"); got != "https://shifter.example/v1/namespaces/shop/releases/checkout-5000" {
		t.Error(got)
	}
}

func TestDryRunWritesNothing(t *testing.T) {
	w := newWorld()
	s := newServer(t, w)
	rec := ask(s, "POST", "/v1/namespaces/shop/releases?dryRun=true", sound)
	p := decode[api.Plan](t, rec.Body.Bytes())
	if rec.Code != 200 || p.PeakPods != 8 || len(p.Steps) != 2 || p.Total != 600 || *p.Rate != 200 || len(p.Warnings) != 1 || len(w.records) != 0 {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
	if rec.Header().Get("Retry-After") != "" || rec.Header().Get("Location") != "" {
		t.Errorf("headers %v", rec.Header())
	}
	if rec := ask(s, "POST", "/v1/namespaces/shop/releases?dryRun=false", sound); rec.Code != 202 {
		t.Errorf("dryRun=false: %d", rec.Code)
	}
}

func TestListPutsThoseThatWaitFirst(t *testing.T) {
	w := newWorld().put(apitest.Views(apitest.Now())...)
	other := apitest.View("gating", apitest.Now())
	other.Release.Key = release.Key{Namespace: "kitchen", Name: "oven-1"}
	w.keep(other)
	s := newServer(t, w)
	names := func(path string) []string {
		rec := ask(s, "GET", path, "")
		if rec.Code != 200 {
			t.Fatalf("%s: %d %s", path, rec.Code, rec.Body)
		}
		out := []string{}
		for _, r := range decode[api.List](t, rec.Body.Bytes()).Items {
			out = append(out, r.Name)
		}
		return out
	}
	all := names("/v1/releases")
	if len(all) != 13 || all[0] != "payments-12" || all[8] != "billing-3" || all[12] != "mail-1" {
		t.Errorf("%v", all)
	}
	if got := names("/v1/namespaces/kitchen/releases"); len(got) != 1 || got[0] != "oven-1" {
		t.Errorf("%v", got)
	}
	if got := names("/v1/releases?phase=held"); len(got) != 1 || got[0] != "payments-12" {
		t.Errorf("%v", got)
	}
	if rec := ask(s, "GET", "/v1/namespaces/empty/releases", ""); strings.TrimSpace(rec.Body.String()) != `{"items":[]}` {
		t.Errorf("%s", rec.Body)
	}
}

func TestOneRecordThatCannotBeReadDoesNotHideTheOthers(t *testing.T) {
	w := newWorld().put(apitest.View("gating", apitest.Now()))
	w.records[release.Key{Namespace: "shop", Name: "broken"}] = release.Record{}
	w.loadErr = errors.New("cannot be read")
	rec := ask(newServer(t, w), "GET", "/v1/releases", "")
	if got := decode[api.List](t, rec.Body.Bytes()); rec.Code != 200 || len(got.Items) != 1 {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
}

func TestGetIsConditional(t *testing.T) {
	w := newWorld().put(apitest.View("gating", apitest.Now()))
	s := newServer(t, w)
	const path = "/v1/namespaces/shop/releases/checkout-4711"
	rec := ask(s, "GET", path, "")
	tag := rec.Header().Get("ETag")
	if rec.Code != 200 || tag != `W/"10"` {
		t.Fatalf("%d %q", rec.Code, tag)
	}
	for _, known := range []string{tag, `"10"`, "10", `"9", W/"10"`, "*"} {
		rec = ask(s, "GET", path, "", "If-None-Match", known)
		if rec.Code != 304 || rec.Body.Len() != 0 || rec.Header().Get("ETag") != tag {
			t.Errorf("%s: %d %q", known, rec.Code, rec.Body)
		}
	}
	if rec = ask(s, "GET", path, "", "If-None-Match", `W/"9"`); rec.Code != 200 {
		t.Errorf("another revision: %d", rec.Code)
	}
	if rec = ask(s, "HEAD", path, ""); rec.Code != 200 || rec.Header().Get("ETag") != tag {
		t.Errorf("HEAD: %d", rec.Code)
	}
}

// asking sends a request from a goroutine of its own and waits until it waits.
func asking(s *Server, path string, headers ...string) <-chan int {
	codes := make(chan int, 1)
	go func() { codes <- ask(s, "GET", path, "", headers...).Code }()
	synctest.Wait()
	return codes
}

func TestGetWaitsForAChange(t *testing.T) {
	const path = "/v1/namespaces/shop/releases/checkout-4711?wait=20s"
	for _, headers := range [][]string{nil, {"If-None-Match", `W/"10"`}} {
		synctest.Test(t, func(t *testing.T) {
			v := apitest.View("gating", apitest.Now())
			w := newWorld().put(v)
			codes := asking(newServer(t, w), path, headers...)
			v.Seq++
			w.put(v)
			synctest.Wait()
			if len(codes) != 0 {
				t.Error("new numbers are taken for a new revision")
			}
			v.Seq++
			v.Release.Revision++
			w.put(v)
			if code := <-codes; code != 200 {
				t.Errorf("%v: %d", headers, code)
			}
		})
	}
}

func TestAWaitEnds(t *testing.T) {
	const path = "/v1/namespaces/shop/releases/checkout-4711"
	for _, c := range []struct {
		wait   string
		known  string
		lasts  time.Duration
		status int
	}{
		{"10s", `W/"10"`, 10 * time.Second, 304},
		{"10s", "", 10 * time.Second, 200},
		{"10m", `W/"10"`, 25 * time.Second, 304}, // cut: some pipelines give up after 30 s
		{"0s", `W/"10"`, 0, 304},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newServer(t, newWorld().put(apitest.View("gating", apitest.Now())))
			began := time.Now()
			code := <-asking(s, path+"?wait="+c.wait, "If-None-Match", c.known)
			if code != c.status || time.Since(began) != c.lasts {
				t.Errorf("%+v: %d after %s", c, code, time.Since(began))
			}
		})
	}
}

func TestAStoppingServerLetsGoOfThoseWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, newWorld().put(apitest.View("gating", apitest.Now())))
		codes := asking(s, "/v1/namespaces/shop/releases/checkout-4711/verdict?wait=20s")
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		began := time.Now()
		if code := <-codes; code != 503 || time.Since(began) != 0 {
			t.Errorf("%d after %s", code, time.Since(began))
		}
	})
}

func TestAWaitOnARecordWithoutAView(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := apitest.View("gating", apitest.Now())
		w := newWorld().keep(v)
		s := newServer(t, w)
		s.pace = defaultPace()
		codes := asking(s, "/v1/namespaces/shop/releases/checkout-4711/verdict?wait=20s")
		v.Release.Phase = release.Succeeded
		w.keep(v)
		began := time.Now()
		if code := <-codes; code != 200 || time.Since(began) > s.pace.poll {
			t.Errorf("%d after %s", code, time.Since(began))
		}
	})
}

func TestVerdictOverHTTP(t *testing.T) {
	want := map[release.Phase]int{
		release.Succeeded: 200, release.RolledBack: 409, release.Aborted: 409, release.Rejected: 409,
		release.Failed: 409, release.Held: 424,
	}
	w := newWorld()
	s := newServer(t, w)
	for _, p := range release.Phases() {
		v := apitest.View("gating", apitest.Now())
		v.Release.Phase = p
		w.put(v)
		rec := ask(s, "GET", "/v1/namespaces/shop/releases/checkout-4711/verdict", "")
		status, retry := want[p], ""
		if status == 0 {
			status, retry = 503, "5"
		}
		got := decode[api.Verdict](t, rec.Body.Bytes())
		if rec.Code != status || rec.Header().Get("Retry-After") != retry || got.Phase != string(p) || got.Sentence == "" || got.Reason == "" {
			t.Errorf("%s: %d %q %s", p, rec.Code, rec.Header().Get("Retry-After"), rec.Body)
		}
		if (got.ExitCode == nil) != (status == 503) {
			t.Errorf("%s: exit code %v", p, got.ExitCode)
		}
	}
}

func TestVerdictWaitsForTheEndOrAHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := apitest.View("gating", apitest.Now())
		w := newWorld().put(v)
		s := newServer(t, w)
		const path = "/v1/namespaces/shop/releases/checkout-4711/verdict"
		if rec := ask(s, "GET", path+"?wait=1s", ""); rec.Code != 503 || rec.Header().Get("Retry-After") != "1" {
			t.Errorf("%d, retry after %q", rec.Code, rec.Header().Get("Retry-After"))
		}
		codes := asking(s, path+"?wait=20s")
		v.Seq++
		v.Release.Phase, v.Release.Revision = release.Shifting, 11
		w.put(v)
		synctest.Wait()
		if len(codes) != 0 {
			t.Error("it does not wait for the end")
		}
		v.Seq++
		v.Release.Phase, v.Release.Revision = release.Held, 12
		w.put(v)
		if code := <-codes; code != 424 {
			t.Error(code)
		}
	})
}

func TestAbort(t *testing.T) {
	w := newWorld().put(apitest.View("gating", apitest.Now()))
	s := newServer(t, w, func(c *Config) {
		c.Subject = func(*http.Request) (string, error) { return "mira", nil }
	})
	const path = "/v1/namespaces/shop/releases/checkout-4711/abort"
	rec := ask(s, "POST", path, `{"traffic": "stay", "mode": "graceful", "reason": "lunch"}`)
	if rec.Code != 202 || rec.Header().Get("Location") != "/v1/namespaces/shop/releases/checkout-4711" {
		t.Fatalf("%d %s", rec.Code, rec.Body)
	}
	want := release.Command{Seq: 1, Verb: release.VerbAbort, Traffic: release.TrafficStay, Mode: release.ModeGraceful, Reason: "lunch", Subject: "mira", At: apitest.Now()}
	if len(w.appended) != 1 || w.appended[0] != want {
		t.Errorf("%+v", w.appended)
	}
	// The same wish again is kept already; a hastier one is another.
	if rec := ask(s, "POST", path, `{"traffic": "stay", "mode": "graceful"}`); rec.Code != 202 || len(w.appended) != 1 {
		t.Errorf("%d, %d commands", rec.Code, len(w.appended))
	}
	if rec := ask(s, "POST", path, ""); rec.Code != 202 || len(w.appended) != 2 {
		t.Errorf("%d, %d commands", rec.Code, len(w.appended))
	}
	if c := w.appended[1]; c.Traffic != release.TrafficBack || c.Mode != release.ModeImmediate {
		t.Errorf("%+v", c)
	}
}

func TestAbortAfterTheEnd(t *testing.T) {
	for state, want := range map[string]struct {
		status int
		recipe string
	}{
		"aborted":    {200, ""},
		"succeeded":  {409, "rollout undo deployment/checkout --to-revision=41"},
		"rolledback": {409, "Nothing"},
		"rejected":   {409, "Nothing"},
		"failed":     {409, "A person must look"},
	} {
		v := apitest.View(state, apitest.Now())
		w := newWorld().put(v)
		rec := ask(newServer(t, w), "POST", api.LinksOf(v.Release.Key, "").Abort, "")
		if rec.Code != want.status || w.wrote != 0 {
			t.Errorf("%s: %d %s", state, rec.Code, rec.Body)
		}
		if want.status == 409 {
			p := problemOf(t, rec)
			if !strings.Contains(strings.Join(p.Recipe, "\n"), want.recipe) || p.Retryable {
				t.Errorf("%s: %+v", state, p)
			}
		}
	}
}

// A release may end between the look and the append.
func TestAbortThatComesTooLate(t *testing.T) {
	v := apitest.View("gating", apitest.Now())
	w := newWorld().put(v)
	s := newServer(t, w)
	s.releases = lateStore{w}
	rec := ask(s, "POST", "/v1/namespaces/shop/releases/checkout-4711/abort", "")
	if p := problemOf(t, rec); p.Code != api.CodeEnded {
		t.Errorf("%+v", p)
	}
}

type lateStore struct{ *world }

func (l lateStore) Append(ctx context.Context, k release.Key, c release.Command) (release.Command, error) {
	l.mu.Lock()
	rec := l.records[k]
	rec.Release.Phase = release.Succeeded
	l.records[k] = rec
	l.mu.Unlock()
	return l.world.Append(ctx, k, c)
}
