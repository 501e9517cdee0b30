//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// call is a call of shifter to the API server, as the audit log has it.
type call struct {
	Time      time.Time `json:"time"`
	Verb      string    `json:"verb"`
	Resource  string    `json:"resource"` // with its subresource
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	Code      int       `json:"code"`
}

func (c call) writes() bool {
	return slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, c.Verb)
}

// callsOf are the calls of all shifters to some namespaces. Each scenario has
// namespaces of its own, so that they are its own shifter's.
func callsOf(t *testing.T, since, until time.Time, namespaces ...string) (calls []call) {
	t.Helper()
	if suite.auditLog == "" {
		t.Log("AUDIT_LOG is not set: no calls are counted")
		return nil
	}
	out, err := command(t.Context(), 2*time.Minute, "", suite.program("audit"), "-log", suite.auditLog, "-agent", "shifter", "-each",
		"-since", since.Format(time.RFC3339Nano), "-until", until.Format(time.RFC3339Nano))
	if err != nil {
		t.Fatal(err)
	}
	for dec := json.NewDecoder(strings.NewReader(out)); ; {
		var c call
		err := dec.Decode(&c)
		if errors.Is(err, io.EOF) {
			return calls
		}
		if err != nil {
			t.Fatal(err)
		}
		if slices.Contains(namespaces, c.Namespace) {
			calls = append(calls, c)
		}
	}
}

// retriesOf is how many requests the proxies of a scene have sent again, by a
// scrape that was made after the given time.
func retriesOf(t *testing.T, ns string, after time.Time) (n float64) {
	t.Helper()
	of := fmt.Sprintf(`{namespace=%q,cluster_name=~"outbound.*"}`, ns)
	until(t, time.Minute, "a count of retries in Prometheus", func(ctx context.Context) (bool, string) {
		at, err := query(ctx, "min(timestamp(envoy_cluster_upstream_rq_total"+of+"))")
		if err != nil || at < float64(after.Unix())+1 {
			return false, fmt.Sprintf("its time is %.0f, now is %d, %v", at, time.Now().Unix(), err)
		}
		n, err = query(ctx, "sum(envoy_cluster_upstream_rq_retry"+of+") or vector(0)")
		return err == nil, fmt.Sprint(err)
	})
	return n
}

// query asks Prometheus for one number.
func query(ctx context.Context, expr string) (n float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", suite.prometheus+"/api/v1/query?query="+url.QueryEscape(expr), http.NoBody)
	if err != nil {
		return 0, err
	}
	client := http.Client{}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	var answer struct {
		Error string `json:"error"`
		Data  struct {
			Result []struct {
				Value [2]any `json:"value"`
			} `json:"result"`
		} `json:"data"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return 0, fmt.Errorf("the answer of Prometheus (%s): %w", resp.Status, err)
	}
	if len(answer.Data.Result) != 1 {
		return 0, fmt.Errorf("%s has %d results %s", expr, len(answer.Data.Result), answer.Error)
	}
	return strconv.ParseFloat(fmt.Sprint(answer.Data.Result[0].Value[1]), 64)
}

// part names the part of a release in which a time lies: a step, what came
// before the first, the way back, or the end after the last.
func (r release) part(at time.Time) string {
	if re := r.Status.Retreat; re != nil && !at.Before(re.Began) {
		return "retreat"
	}
	name := "start"
	for i, st := range r.Steps {
		if st.Started == nil || at.Before(*st.Started) {
			continue
		}
		name = fmt.Sprintf("%g", st.Share)
		if i == len(r.Steps)-1 && st.Passed != nil && !at.Before(*st.Passed) {
			name = "end"
		}
	}
	return name
}

// writes counts the writes to the scene's route and Deployments, by part.
func (s *stage) writes() map[string]int {
	n := map[string]int{}
	for _, c := range s.calls {
		resource, _, _ := strings.Cut(c.Resource, "/")
		if c.writes() && c.Namespace == s.ns && (resource == s.kind.resource || resource == "deployments") {
			n[s.release.part(c.Time)]++
		}
	}
	return n
}

// callsBy counts the calls to a namespace by verb and resource, and the watches
// apart: one lasts.
func (s *stage) callsBy(ns string) (by map[string]int, watches int) {
	by = map[string]int{}
	for _, c := range s.calls {
		switch {
		case c.Namespace != ns:
		case c.Verb == "watch":
			watches++
		default:
			by[c.Verb+" "+c.Resource]++
		}
	}
	return by, watches
}

// account is what a scenario reports, in one line of JSON.
type account struct {
	Scenario string           `json:"scenario"`
	Ended    string           `json:"ended"`
	Reason   string           `json:"reason"`
	Wall     float64          `json:"wallSeconds"` // with the scene's making
	Ran      float64          `json:"ranSeconds"`  // from POST to end
	Requests map[string]int64 `json:"requests"`
	Retries  float64          `json:"retries"`
	Steps    []stepAccount    `json:"steps"`
	Drain    *drain           `json:"drain"`
	Retreat  map[string]any   `json:"retreat,omitempty"` // seconds from its begin
	Harm     map[string]any   `json:"harm,omitempty"`
	Writes   map[string]int   `json:"writes"` // to route and Deployments, by part
	Scene    map[string]int   `json:"callsToScene"`
	Own      map[string]int   `json:"callsToOwn"`
	Watches  int              `json:"watches"`
}

type stepAccount struct {
	Share    float64  `json:"share"`
	State    string   `json:"state"`
	Accepted *float64 `json:"writtenToAccepted"` // seconds
	Shown    *float64 `json:"writtenToShown"`
	ShownBy  string   `json:"shownBy"`
	Passed   *float64 `json:"shownToPassed"`
	Seen     *float64 `json:"seen"` // the primary's percentage, by the client
	Answers  int64    `json:"answers"`
}

// report logs the account of a release that has ended.
func (s *stage) report() {
	s.t.Helper()
	r, paced, long := s.release, s.traffic.Paced, s.traffic.Long
	a := account{
		Scenario: s.name, Ended: r.Status.Phase, Reason: r.Status.Reason,
		Wall: time.Since(s.began).Round(100 * time.Millisecond).Seconds(), Ran: s.over.Sub(s.posted).Round(100 * time.Millisecond).Seconds(),
		Requests: map[string]int64{
			"sent": paced.Sent, "failed": paced.Failed, "bad": paced.Bad, "injected": paced.Injected, "missed": paced.Missed,
			"longSent": long.Sent, "longFailed": long.Failed, "longBad": long.Bad,
		},
		Retries: s.retries, Drain: r.Status.Drain, Writes: s.writes(),
	}
	for _, st := range r.Steps {
		b := stepAccount{
			Share: st.Share, State: st.State, ShownBy: st.ShownBy,
			Accepted: seconds(st.Written, st.Accepted), Shown: seconds(st.Written, st.Shown), Passed: seconds(st.Shown, st.Passed),
		}
		if st.Shown != nil && st.Passed != nil {
			share, n := s.shareIn(st.Shown.Add(time.Second), st.Passed.Add(-time.Second))
			share *= 100
			b.Seen, b.Answers = &share, n
		}
		a.Steps = append(a.Steps, b)
	}
	if re := r.Status.Retreat; re != nil {
		a.Retreat = map[string]any{
			"why": re.Why, "forced": re.Forced, "moved": seconds(&re.Began, re.Moved), "shown": seconds(&re.Began, re.Shown),
			"drained": seconds(&re.Began, re.Drained), "undone": seconds(&re.Began, re.Undone),
		}
	}
	if h := r.Status.Harm; h != nil {
		a.Harm = map[string]any{"low": h.Low, "mid": h.Mid, "high": h.High, "injected": paced.Injected}
		if g := r.Status.Gate; g != nil && g.Data != nil {
			a.Harm["injectedWhenJudged"] = s.injectedUntil(*g.Data)
		}
	}
	var watchesOwn int
	a.Scene, a.Watches = s.callsBy(s.ns)
	a.Own, watchesOwn = s.callsBy(s.own)
	a.Watches += watchesOwn
	s.t.Logf("e2e-report %s", jsonOf(a))
}

func seconds(from, to *time.Time) *float64 {
	if from == nil || to == nil {
		return nil
	}
	d := to.Sub(*from).Round(10 * time.Millisecond).Seconds()
	return &d
}

// shareIn is the primary's part of the answers between two times, by whole
// seconds of the client's timeline, and of how many.
func (s *stage) shareIn(from, to time.Time) (share float64, n int64) {
	var onPrimary int64
	for _, sec := range s.traffic.Paced.Timeline {
		begin := time.Unix(sec.At, 0)
		if begin.Before(from) || begin.Add(time.Second).After(to) {
			continue
		}
		onPrimary += sec.ByWorkload[primary]
		n += sec.ByWorkload[primary] + sec.ByWorkload[canary]
	}
	if n == 0 {
		return 0, 0
	}
	return float64(onPrimary) / float64(n), n
}

// injectedUntil counts the injected errors that the client got up to a time.
func (s *stage) injectedUntil(at time.Time) (n int64) {
	for _, sec := range s.traffic.Paced.Timeline {
		if time.Unix(sec.At, 0).Before(at) {
			n += sec.Injected
		}
	}
	return n
}
