package server

import (
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shifter-dev/shifter/internal/analysis"
	"github.com/shifter-dev/shifter/internal/api"
	"github.com/shifter-dev/shifter/internal/api/apitest"
	"github.com/shifter-dev/shifter/internal/release"
)

// pagesOf has the page of every state and the list of all; it asks once.
func pagesOf(t *testing.T) map[string]string {
	t.Helper()
	pagesOnce.Do(func() { askedPages = askPages(t) })
	return askedPages
}

var (
	pagesOnce  sync.Once
	askedPages map[string]string
)

func askPages(t *testing.T) map[string]string {
	w := newWorld()
	s := newServer(t, w)
	out := map[string]string{}
	for _, n := range apitest.Names() {
		v := apitest.View(n, apitest.Now())
		w.put(v)
		rec := ask(s, "GET", api.LinksOf(v.Release.Key, "").Page, "")
		if rec.Code != 200 || rec.Header().Get("Content-Type") != "text/html; charset=UTF-8" {
			t.Fatalf("%s: %d %v", n, rec.Code, rec.Header())
		}
		checkHeaders(t, rec.Header())
		out["release-"+n] = rec.Body.String()
	}
	out["list"] = ask(s, "GET", "/", "").Body.String()
	out["list-empty"] = ask(newServer(t, newWorld()), "GET", "/", "").Body.String()
	out["reload"] = ask(s, "GET", "/namespaces/shop/releases/checkout-4711?reload=10", "").Body.String()
	out["error"] = ask(s, "GET", "/namespaces/shop/releases/none", "", "Accept", "text/html").Body.String()
	return out
}

// hashes are the marks of the assets in their URLs.
var hashes = regexp.MustCompile(`(/assets/[a-z.-]+)\?[0-9a-f]{12}`)

func TestPageGoldens(t *testing.T) {
	for name, html := range pagesOf(t) {
		golden(t, name+".html", []byte(hashes.ReplaceAllString(html, "$1")))
	}
}

func TestNothingIsInline(t *testing.T) {
	for name, html := range pagesOf(t) {
		for _, bad := range []*regexp.Regexp{
			regexp.MustCompile(`(?i)<style`),
			regexp.MustCompile(`(?i)\sstyle\s*=`),
			regexp.MustCompile(`(?i)\son[a-z]+\s*=`),
			regexp.MustCompile(`(?i)javascript:`),
			regexp.MustCompile(`(?i)<script(?: [^>]*)?>[^<]`),
			regexp.MustCompile(`(?i)(?:src|href)="(?:https?:)?//`),
			regexp.MustCompile(`ZgotmplZ|%!|<no value>`),
		} {
			if m := bad.FindString(html); m != "" {
				t.Errorf("%s has %q", name, m)
			}
		}
		for _, want := range []string{`<html lang="en">`, `<main id="main"`, `href="#main"`, `<title>`, `name="viewport"`} {
			if !strings.Contains(html, want) {
				t.Errorf("%s lacks %s", name, want)
			}
		}
		if n := strings.Count(html, "<h1"); n != 1 {
			t.Errorf("%s has %d first headings", name, n)
		}
		if n := len(html); n > 60<<10 {
			t.Errorf("%s has %d bytes", name, n)
		}
	}
}

func TestTheTitleSaysTheState(t *testing.T) {
	titles := map[string]string{
		"gating": "50% -&gt; primary · checkout-4711", "held": "held at 25% · payments-12",
		"draining": "back -&gt; canary · checkout-4709", "succeeded": "succeeded · checkout-4698",
		"rolledback": "rolledBack · checkout-4702", "failed": "failed · billing-3",
	}
	icons := map[string]string{"gating": "run", "held": "hold", "draining": "back", "succeeded": "good", "rolledback": "back", "failed": "bad", "aborted": "stop"}
	html := pagesOf(t)
	for n, want := range titles {
		if !strings.Contains(html["release-"+n], "<title>"+want+"</title>") {
			t.Errorf("%s: no title %q", n, want)
		}
	}
	for n, want := range icons {
		if !strings.Contains(html["release-"+n], `rel="icon" type="image/svg+xml" href="/assets/icon-`+want+`.svg`) {
			t.Errorf("%s: no icon %s", n, want)
		}
	}
	if !strings.Contains(html["list"], "<title>1 held · shifter</title>") {
		t.Error("the list's title")
	}
}

func TestAnEndedReleaseIsNotFollowed(t *testing.T) {
	html := pagesOf(t)
	for _, n := range []string{"release-succeeded", "error"} {
		if strings.Contains(html[n], "data-stream") || strings.Contains(html[n], "<script") || strings.Contains(html[n], "<noscript") {
			t.Errorf("%s is live", n)
		}
	}
	for _, n := range []string{"release-gating", "list", "list-empty"} {
		if !strings.Contains(html[n], "data-stream") || !strings.Contains(html[n], "<noscript") {
			t.Errorf("%s is not live, or stands still without scripts", n)
		}
	}
	if strings.Contains(html["release-gating"], "http-equiv") || !strings.Contains(html["reload"], `<noscript><meta http-equiv="refresh" content="10"></noscript>`) {
		t.Error("a page reloads itself only when that was asked for")
	}
}

func TestWhatOthersWroteIsEscaped(t *testing.T) {
	const evil = `<script>alert(1)</script>"'><img src=x onerror=alert(1)>`
	v := apitest.View("draining", apitest.Now())
	r := &v.Release
	r.Message, r.Subject = evil, evil
	r.Spec.Cause = release.Cause{CI: evil, Run: evil, Actor: evil, Commit: evil, Reason: evil}
	r.Spec.Routes[0].Name = evil
	r.History[0].Text, r.History[0].Subject = evil, evil
	r.Retreat.Reason = evil
	r.Unverified = []string{evil}
	v.Trouble, v.Next.Action = evil, evil
	v.Verdict.Val.Notes = []string{evil}
	v.Verdict.Val.Metric = evil
	v.Drain.Val.Why = evil
	v.Drain.Val.Senders, v.Drain.Val.Missing = []string{evil}, []string{evil}
	v.Drain.Val.Pods[0].Pod = evil
	for i := range v.Tracks {
		v.Tracks[i].Deployment, v.Tracks[i].Service = evil, evil
		v.Tracks[i].Template.Val = release.Template{Hash: evil, Images: map[string]string{"app": "x:" + evil}}
		v.Tracks[i].Trouble = []release.Trouble{{Kind: release.TroubleTerminal, Reason: evil, Message: evil, Pod: evil}}
	}
	w := newWorld().put(v)
	s := newServer(t, w)
	for _, path := range []string{"/", "/namespaces/shop/releases/checkout-4709"} {
		html := ask(s, "GET", path, "").Body.String()
		if strings.Contains(html, "<script>alert") || strings.Contains(html, "<img") {
			t.Errorf("%s is not escaped", path)
		}
		if !strings.Contains(html, "&lt;script&gt;alert(1)&lt;/script&gt;") {
			t.Errorf("%s does not show it", path)
		}
	}
}

func TestTheCommandToAbort(t *testing.T) {
	w := newWorld().put(apitest.View("gating", apitest.Now()), apitest.View("succeeded", apitest.Now()))
	s := newServer(t, w)
	page := func(path string) string { return ask(s, "GET", path, "").Body.String() }
	if !strings.Contains(page("/namespaces/shop/releases/checkout-4711"), "curl -X POST http://localhost/v1/namespaces/shop/releases/checkout-4711/abort") {
		t.Error("no command")
	}
	if strings.Contains(page("/namespaces/shop/releases/checkout-4698"), "curl -X POST") {
		t.Error("a command for what has ended")
	}
	s = newServer(t, w, func(c *Config) { c.URL = "https://shifter.example" })
	if !strings.Contains(page("/namespaces/shop/releases/checkout-4711"), "curl -X POST https://shifter.example/v1/") {
		t.Error("the public URL is not used")
	}
}

func TestWhatIsNotKnownIsNotZero(t *testing.T) {
	html := pagesOf(t)["release-pending"]
	for _, want := range []string{"Not known: not looked at yet", "Pods not known: not looked at yet", "No verdict: no step has been judged yet", "From the record as of"} {
		if !strings.Contains(html, want) {
			t.Errorf("no %q", want)
		}
	}
	if strings.Contains(html, "0 of 0 ready") || strings.Contains(html, "<b>0 %</b>") {
		t.Error("an unknown is shown as zero")
	}
}

func TestAReleaseThatCannotBeReadHasAPage(t *testing.T) {
	k := release.Key{Namespace: "shop", Name: "broken"}
	w := newWorld().put(release.View{AsOf: apitest.Now(), Release: release.Release{Key: k, Phase: release.Failed, Reason: release.ReasonInternal, NeedsHuman: true, Message: "Nothing is done for this release."}})
	s := newServer(t, w)
	for _, path := range []string{"/", "/namespaces/shop/releases/broken"} {
		if rec := ask(s, "GET", path, ""); rec.Code != 200 || !strings.Contains(rec.Body.String(), "needs a person") {
			t.Errorf("%s: %d", path, rec.Code)
		}
	}
}

func TestAssets(t *testing.T) {
	s := newServer(t, newWorld())
	for name, a := range s.assets {
		rec := ask(s, "GET", a.url, "")
		if rec.Code != 200 || a.kind == "" || rec.Header().Get("Content-Type") != a.kind || !strings.Contains(rec.Header().Get("Cache-Control"), "immutable") {
			t.Errorf("%s: %d %v", name, rec.Code, rec.Header())
		}
	}
}

func TestFormats(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{percent(50), "50 %"},
		{percent(49.66), "49.7 %"},
		{rate(0.00069166), "0.069 %"},
		{rate(0.0488), "4.88 %"},
		{rate(0), "0 %"},
		{rate(1), "100 %"},
		{rate(0.000001), "0.0001 %"},
		{points(0.0048), "+0.48 pp"},
		{points(-0.0000853), "−0.009 pp"},
		{points(0), "0 pp"},
		{count(1234567), "1,234,567"},
		{count(999), "999"},
		{count(-1200), "−1,200"},
		{count(12.34), "12.3"},
		{lasting(5), "5 s"},
		{lasting(100), "1 min 40 s"},
		{lasting(120), "2 min"},
		{lasting(7500), "2 h 5 min"},
		{lasting(3 * 86400), "3 days"},
		{lasting(-3), "0 s"},
		{imageTag("registry.example:5000/shop/checkout:v2"), "v2"},
		{imageTag("registry.example:5000/shop/checkout"), "checkout"},
		{imageTag("shop/checkout@sha256:0123456789abcdef0123"), "0123456789ab"},
		{version(api.Template{Hash: "abc"}), "abc"},
		{at(apitest.Now(), apitest.Now()).Text, "10:30:00"},
		{at(apitest.Now().Add(-24*time.Hour), apitest.Now()).Text, "19 Nov 10:30:00"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
	big, tiny := 5.3e6, 1e-9
	if multiple(&big) != "5.3e+06" || multiple(&tiny) != "less than 0.001" || multiple(nil) == "" {
		t.Error("e-values")
	}
}

func TestTheMeterOfAVerdict(t *testing.T) {
	v := apitest.View("gating", apitest.Now())
	v.Verdict.Val.LogFail = -1e6
	g := newGate(api.FromView(v, "").Status.Gate, api.FromView(v, ""), apitest.Now())
	if g.Meters[0].Fill != 0 || !strings.HasPrefix(g.Meters[0].Text, "none") {
		t.Errorf("%+v", g.Meters[0])
	}
	if f := g.Meters[1].Fill; f < 60 || f > 70 {
		t.Errorf("%+v", g.Meters[1])
	}
	v.Verdict.Val.LogPass, v.Verdict.Val.Outcome = 1e6, analysis.Pass
	g = newGate(api.FromView(v, "").Status.Gate, api.FromView(v, ""), apitest.Now())
	if m := g.Meters[1]; m.Fill != 100 || !m.Met {
		t.Errorf("%+v", m)
	}
}
