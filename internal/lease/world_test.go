package lease_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/shifter-dev/shifter/internal/kubetest"
	"github.com/shifter-dev/shifter/internal/lease"
)

var leases = schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}

const ns = "shifter"

var errCut = errors.New("connection refused")

// way is a process's way to the API server, in memory, so that its time can be
// the test's.
type way struct {
	server *kubetest.Server

	mu     sync.Mutex
	before func(r *http.Request) error
	after  func(r *http.Request) error
}

// RoundTrip implements http.RoundTripper.
func (w *way) RoundTrip(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	before, after := w.before, w.after
	w.mu.Unlock()
	if before != nil {
		if err := before(r); err != nil {
			return nil, err
		}
	}
	in := r.Clone(r.Context())
	if in.Body == nil {
		in.Body = http.NoBody
	}
	answer := httptest.NewRecorder()
	w.server.ServeHTTP(answer, in)
	if after != nil {
		if err := after(r); err != nil {
			return nil, err
		}
	}
	return answer.Result(), nil
}

func (w *way) hook(before, after func(r *http.Request) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.before, w.after = before, after
}

func cut(*http.Request) error { return errCut }

func hang(r *http.Request) error {
	<-r.Context().Done()
	return r.Context().Err()
}

// replica is a process that stands in an election.
type replica struct {
	*lease.Elector

	way  *way
	stop context.CancelFunc
	// lag is how long its work takes to stop.
	lag time.Duration

	mu         sync.Mutex
	began      time.Time // when it led first
	told       time.Time // when its work was told to stop
	ended      time.Time // when its work had stopped
	returned   time.Time // when Run had
	err        error
	overlap    func(delta int)
	terminated chan struct{}
}

// stand lets a replica stand for the Lease, until the test's end at the latest.
func stand(t *testing.T, s *kubetest.Server, name string) *replica {
	t.Helper()
	return standLagging(t, s, name, 0, func(int) {})
}

// standLagging is stand for a replica whose work takes its time to stop.
func standLagging(t *testing.T, s *kubetest.Server, name string, lag time.Duration, overlap func(int)) *replica {
	t.Helper()
	r := &replica{way: &way{server: s}, terminated: make(chan struct{}), lag: lag, overlap: overlap}
	client, err := dynamic.NewForConfigAndClient(s.Config(), &http.Client{Transport: r.way})
	if err != nil {
		t.Fatal(err)
	}
	if r.Elector, err = lease.New(client, lease.Config{Namespace: ns, Name: "shifter", Identity: name}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	r.stop = stop
	t.Cleanup(func() {
		stop()
		<-r.terminated
		time.Sleep(lease.Deadline) // what hangs has been given up
	})
	return r.run(ctx)
}

func (r *replica) run(ctx context.Context) *replica {
	go func() {
		defer close(r.terminated)
		err := r.Run(ctx, r.lead)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.returned, r.err = time.Now(), err
	}()
	return r
}

func (r *replica) lead(ctx context.Context) error {
	r.note(&r.began)
	r.overlap(1)
	<-ctx.Done()
	r.note(&r.told)
	time.Sleep(r.lag)
	r.overlap(-1)
	r.note(&r.ended)
	return nil
}

func (r *replica) note(at *time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	*at = time.Now()
}

// at reads a moment, zero when it has not come.
func (r *replica) at(at *time.Time) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return *at
}

func (r *replica) leads() bool { return !r.at(&r.began).IsZero() && r.at(&r.told).IsZero() }

// until waits for something, in the test's time.
func until(t *testing.T, what string, most time.Duration, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(most); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %s: %s", most, what)
		}
	}
}

// spec is what the Lease says.
func spec(s *kubetest.Server) kubetest.Object {
	o := s.Get(leases, ns, "shifter")
	if o == nil {
		return nil
	}
	return kubetest.In(o, "spec")
}
