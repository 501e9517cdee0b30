package main

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/shifter-dev/shifter/internal/engine"
	"github.com/shifter-dev/shifter/internal/kubetest"
	"github.com/shifter-dev/shifter/internal/lease"
	"github.com/shifter-dev/shifter/internal/store"
)

// One call of a port may be under way when the Lease is lost, and the clocks of
// two machines may differ in how fast they go.
func TestTheWorkHasStoppedBeforeAnotherCanLead(t *testing.T) {
	left := lease.Duration - lease.Deadline - engine.MaxCall
	if left < lease.Duration/20 {
		t.Errorf("between the end of the last call and the next leader are %s", left)
	}
}

// served is a serve that the test may stop.
type served struct {
	url  string
	said *transcript
	stop context.CancelFunc
	done chan error
}

// serveOver runs serve over a cluster. It must be ended by the test.
func serveOver(t *testing.T, c *kubetest.Server, args ...string) *served {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cluster")
	if err := os.WriteFile(path, []byte(strings.Replace(unreachable, "http://127.0.0.1:9", c.Config().Host, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &served{said: newTranscript(), done: make(chan error, 1)}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	root := newRoot()
	root.SetArgs(append([]string{"serve", "--dev", "--kubeconfig", path, "--listen", "127.0.0.1:0", "--namespace", "shifter", "--prometheus", "http://127.0.0.1:9"}, args...))
	root.SetOut(io.Discard)
	root.SetErr(s.said)
	go func() { s.done <- root.ExecuteContext(ctx) }()
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	s.url = s.said.await(t, `Page and API: (http://[0-9.:]+)`)
	return s
}

// end waits until it has ended, as it should.
func (s *served) end(t *testing.T) error {
	t.Helper()
	select {
	case err := <-s.done:
		return err
	case <-time.After(patience):
		t.Fatalf("serve did not end:\n%s", s.said)
		return nil
	}
}

func clusterWithout(t *testing.T) *kubetest.Server {
	t.Helper()
	return kubetest.New(t, configMaps, leases, httpRoutes, schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"})
}

func TestTwoMayServeAndOneStandsBy(t *testing.T) {
	c := clusterWithout(t)
	first := serveOver(t, c)
	first.said.await(t, `(the engine runs)`)
	second := serveOver(t, c)
	second.said.await(t, `(another process leads)`)
	if code, body := answer(t, "GET", first.url+"/readyz", ""); code != http.StatusOK || !strings.HasPrefix(body, "ok: leader ") {
		t.Errorf("the leader: %d %s", code, body)
	}
	if code, body := answer(t, "GET", second.url+"/readyz", ""); code != http.StatusOK || !strings.HasPrefix(body, "ok: standby, the leader is ") {
		t.Errorf("the standby: %d %s", code, body)
	}
	if strings.Contains(second.said.String(), "the engine runs") {
		t.Error("the standby has an engine")
	}

	first.stop()
	if err := first.end(t); err != nil {
		t.Errorf("it ended with %v", err)
	}
	released := time.Now()
	second.said.await(t, `(the engine runs)`)
	over := time.Since(released)
	t.Logf("taken over %s after the end of the leader", over)
	if over > 3*time.Second {
		t.Errorf("it took %s", over)
	}
	second.stop()
	if err := second.end(t); err != nil {
		t.Errorf("it ended with %v", err)
	}
	if holder := kubetest.Text(c.Get(leases, "shifter", leaseName), "spec", "holderIdentity"); holder != "" {
		t.Errorf("%s still holds the Lease", holder)
	}
}

func TestAStandbyShowsRecordsAndTakesWishes(t *testing.T) {
	c := clusterWithout(t)
	c.Put("another", leases, kubetest.YAML(t, `
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: shifter, namespace: shifter}
spec: {holderIdentity: another, leaseDurationSeconds: 60}
`))
	s := serveOver(t, c)
	s.said.await(t, `(another process leads)`)
	client, err := dynamic.NewForConfigAndClient(c.Config(), c.HTTP())
	if err != nil {
		t.Fatal(err)
	}
	if err := store.NewConfigMaps(client, store.ConfigMapsConfig{Namespace: "shifter"}).Create(t.Context(), admitted()); err != nil {
		t.Fatal(err)
	}
	releases := s.url + "/v1/namespaces/shop/releases"
	code, body := answer(t, "GET", releases+"/r", "")
	if code != http.StatusOK || !strings.Contains(body, `"live":false`) {
		t.Errorf("a standby shows %d %s", code, body)
	}
	if code, body := answer(t, "POST", releases+"/r/abort", ""); code != http.StatusAccepted {
		t.Errorf("a standby answers a command with %d %s", code, body)
	}
	if epoch := c.Get(configMaps, "shifter", "shifter-epoch"); epoch != nil {
		t.Error("a standby has raised the epoch")
	}
	s.stop()
	if err := s.end(t); err != nil {
		t.Errorf("it ended with %v", err)
	}
	if holder := kubetest.Text(c.Get(leases, "shifter", leaseName), "spec", "holderIdentity"); holder != "another" {
		t.Errorf("the Lease is %s's", holder)
	}
}

func TestWhoLosesTheLeaseEndsWithACode(t *testing.T) {
	c := clusterWithout(t)
	s := serveOver(t, c)
	s.said.await(t, `(the engine runs)`)
	c.Edit("kubectl", leases, "shifter", leaseName, func(o kubetest.Object) { kubetest.In(o, "spec")["holderIdentity"] = "another" })
	err := s.end(t)
	var coded exitError
	if !errors.As(err, &coded) || coded.code != exitFailed || !errors.Is(err, lease.ErrLost) || !strings.Contains(err.Error(), "held by another") {
		t.Errorf("it ended with %v", err)
	}
	s.said.await(t, `(this process ends: it may not write any more)`)
	s.stop()
}

func TestWithoutRightsOnLeasesNothingIsMoved(t *testing.T) {
	c := clusterWithout(t)
	c.Intercept = func(w http.ResponseWriter, r *http.Request) bool {
		if !theLease(r) {
			return false
		}
		kubetest.Refuse(w, http.StatusForbidden, metav1.StatusReasonForbidden, `leases.coordination.k8s.io "shifter" is forbidden`, &metav1.StatusDetails{Kind: "leases"})
		return true
	}
	s := serveOver(t, c)
	why := s.said.await(t, `(the Lease cannot be taken.*)`)
	for _, part := range []string{"get leases", "namespace shifter", "grant"} {
		if !strings.Contains(why, part) {
			t.Errorf("it does not name %q: %s", part, why)
		}
	}
	if code, body := answer(t, "GET", s.url+"/readyz", ""); code != http.StatusServiceUnavailable {
		t.Errorf("ready: %d %s", code, body)
	}
	if c.Get(configMaps, "shifter", "shifter-epoch") != nil || strings.Contains(s.said.String(), "the engine runs") {
		t.Error("an engine runs without a Lease")
	}
	s.stop()
	if err := s.end(t); err != nil {
		t.Errorf("it ended with %v", err)
	}
}

func TestTheLeaseCanBeGivenUpForDevelopmentOnly(t *testing.T) {
	c := clusterWithout(t)
	s := serveOver(t, c, "--lease=false")
	s.said.await(t, `(start no other shifter)`)
	s.said.await(t, `(the engine runs)`)
	if code, body := answer(t, "GET", s.url+"/readyz", ""); code != http.StatusOK || body != "ok\n" {
		t.Errorf("ready: %d %s", code, body)
	}
	if c.Get(leases, "shifter", leaseName) != nil {
		t.Error("it made a Lease")
	}
	s.stop()
	if err := s.end(t); err != nil {
		t.Errorf("it ended with %v", err)
	}
	var stderr bytes.Buffer
	if code := run([]string{"serve", "--lease=false"}, io.Discard, &stderr); code != exitUsage || !strings.Contains(stderr.String(), "--lease=false") {
		t.Errorf("without --dev: %d %s", code, &stderr)
	}
}

// The way for the Lease is a connection of its own, which a request that is given
// up closes.
func TestTheLeaseHasAWayOfItsOwn(t *testing.T) {
	var asked, news atomic.Int32
	hung := make(chan struct{})
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1); r.ProtoMajor != 1 || !strings.HasSuffix(r.UserAgent(), "/lease") {
			t.Errorf("%s by %s", r.Proto, r.UserAgent())
		}
		select {
		case <-hung:
			w.WriteHeader(http.StatusServiceUnavailable)
		case <-r.Context().Done():
		}
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	cfg := &rest.Config{Host: s.URL, TLSClientConfig: rest.TLSClientConfig{CAData: ca}}
	work, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	e, h, err := newElection(cfg, "shifter", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer h.CloseIdleConnections()
	if h.Transport == work.Transport || cfg.QPS != 0 || cfg.NextProtos != nil || e.Identity() == "" {
		t.Error("the way for the work has changed, or is the same")
	}
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) {
			if !i.Reused {
				news.Add(1)
			}
		}})
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := h.Do(req)
		if err == nil {
			res.Body.Close()
		}
		cancel()
	}
	close(hung)
	if asked.Load() != 2 || news.Load() != 2 {
		t.Errorf("%d requests on %d connections", asked.Load(), news.Load())
	}
}

func TestTwoProcessesHaveTwoIdentities(t *testing.T) {
	a, err := identity()
	if err != nil {
		t.Fatal(err)
	}
	if b, err := identity(); err != nil || a == b {
		t.Errorf("%s and %s: %v", a, b, err)
	}
}
