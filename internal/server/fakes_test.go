package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shifter-dev/shifter/internal/api/apitest"
	"github.com/shifter-dev/shifter/internal/release"
)

// world is every port of the server in memory.
type world struct {
	mu       sync.Mutex
	records  map[release.Key]release.Record
	views    map[release.Key]release.View
	watchers map[chan struct{}]bool
	wrote    int // creates and appends that changed something

	now      func() time.Time
	plan     func(release.Key, release.Spec, string) (release.Forecast, error)
	loadErr  error
	listErr  error
	panicky  bool
	appended []release.Command
}

func newWorld() *world {
	return &world{
		records: map[release.Key]release.Record{}, views: map[release.Key]release.View{},
		watchers: map[chan struct{}]bool{}, now: apitest.Now,
	}
}

// put shows a view, and keeps its record.
func (w *world) put(vs ...release.View) *world {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, v := range vs {
		w.views[v.Release.Key] = v
		w.records[v.Release.Key] = apitest.Record(v)
	}
	w.stir()
	return w
}

// keep keeps a record without a view.
func (w *world) keep(vs ...release.View) *world {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, v := range vs {
		w.records[v.Release.Key] = apitest.Record(v)
	}
	return w
}

func (w *world) stir() {
	for c := range w.watchers {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// taken is an error of a store that says who is in the way.
type taken struct{ k release.Key }

func (t taken) Error() string       { return "secret-internal: taken by " + t.k.String() }
func (t taken) Unwrap() error       { return release.ErrExists }
func (t taken) HeldBy() release.Key { return t.k }

// rubbish is a store's error for a record that is there and cannot be read.
type rubbish struct{}

func (rubbish) Error() string    { return "secret-internal: invalid character" }
func (rubbish) Unreadable() bool { return true }

func (w *world) Create(_ context.Context, r release.Release) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := w.records[r.Key]; ok {
		return fmt.Errorf("secret-internal: %w", release.ErrExists)
	}
	for k, rec := range w.records {
		if rec.Release.Phase.Terminal() {
			continue
		}
		for _, l := range rec.Release.Binding.Locks() {
			if slices.Contains(r.Binding.Locks(), l) {
				return taken{k}
			}
		}
	}
	w.records[r.Key] = release.Record{Release: r, Version: "1"}
	w.wrote++
	return nil
}

func (w *world) Append(_ context.Context, k release.Key, c release.Command) (release.Command, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	rec, ok := w.records[k]
	if !ok {
		return c, release.ErrNotFound
	}
	if rec.Release.Phase.Terminal() {
		return c, release.ErrRefused
	}
	c.Seq = uint64(len(rec.Inbox) + 1)
	rec.Inbox = append(rec.Inbox, c)
	w.records[k] = rec
	w.appended = append(w.appended, c)
	w.wrote++
	return c, nil
}

func (w *world) Load(_ context.Context, k release.Key) (release.Record, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.panicky {
		panic("secret-internal: nil map")
	}
	if w.loadErr != nil {
		return release.Record{}, w.loadErr
	}
	rec, ok := w.records[k]
	if !ok {
		return release.Record{}, fmt.Errorf("secret-internal: record %s: %w", k, release.ErrNotFound)
	}
	return rec, nil
}

// List is the store's; viewsOf has the one of the views.
func (w *world) List(context.Context) ([]release.Key, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.listErr != nil {
		return nil, w.listErr
	}
	var out []release.Key
	for k := range w.records {
		out = append(out, k)
	}
	slices.SortFunc(out, func(a, b release.Key) int { return strings.Compare(a.String(), b.String()) })
	return out, nil
}

type viewsOf struct{ w *world }

func (v viewsOf) Get(k release.Key) (release.View, bool) {
	v.w.mu.Lock()
	defer v.w.mu.Unlock()
	x, ok := v.w.views[k]
	return x, ok
}

func (v viewsOf) List() []release.View {
	v.w.mu.Lock()
	defer v.w.mu.Unlock()
	var out []release.View
	for _, x := range v.w.views {
		out = append(out, x)
	}
	slices.SortFunc(out, func(a, b release.View) int {
		return strings.Compare(a.Release.Key.String(), b.Release.Key.String())
	})
	return out
}

func (v viewsOf) Watch(ctx context.Context, k release.Key) <-chan release.View {
	stir := make(chan struct{}, 1)
	stir <- struct{}{}
	v.w.mu.Lock()
	v.w.watchers[stir] = true
	v.w.mu.Unlock()
	out := make(chan release.View)
	go func() {
		defer close(out)
		defer func() {
			v.w.mu.Lock()
			delete(v.w.watchers, stir)
			v.w.mu.Unlock()
		}()
		for {
			select {
			case <-ctx.Done():
				return
			case <-stir:
			}
			for _, x := range v.List() {
				if k != (release.Key{}) && x.Release.Key != k {
					continue
				}
				select {
				case <-ctx.Done():
					return
				case out <- x:
				}
			}
		}
	}()
	return out
}

// Plan answers with a sound plan unless plan says otherwise.
func (w *world) Plan(_ context.Context, k release.Key, s release.Spec, subject string) (release.Forecast, error) {
	if w.plan != nil {
		return w.plan(k, s, subject)
	}
	return forecast(k, s, subject, w.now()), nil
}

func forecast(k release.Key, s release.Spec, subject string, now time.Time) release.Forecast {
	b := apitest.View("gating", now).Release.Binding
	b.Key = k
	for i := range b.Routes {
		b.Routes[i].UID = "route-" + s.Routes[0].Name
	}
	for t := range b.Tracks {
		b.Tracks[t].UID = "deployment-" + s.Tracks[t].Deployment
		b.Tracks[t].Deployment = s.Tracks[t].Deployment
	}
	return release.Forecast{
		Release: release.New(k, "uid-"+k.Name, s, b, subject, now),
		Steps: []release.ExpectedStep{
			{Share: 10, Replicas: [2]int{2, 4}, Requests: 300, Time: 5 * time.Minute, Certifiable: true, Control: true},
			{Share: 100, Replicas: [2]int{4, 4}, Requests: 300, Time: 5 * time.Minute, Certifiable: true},
		},
		Warnings: []release.Finding{{Code: "latestTag", Message: "container app uses the tag latest", Fix: "pin the image"}},
		Total:    10 * time.Minute, PeakPods: 8, Rate: release.Known(200.0, now),
	}
}

// newServer makes a server over a world at apitest.Now, quick enough for tests.
func newServer(t testing.TB, w *world, with ...func(*Config)) *Server {
	t.Helper()
	cfg := Config{Listen: "127.0.0.1:0", Now: w.now, Version: "test"}
	for _, f := range with {
		f(&cfg)
	}
	s, err := New(cfg, w, viewsOf{w}, w)
	if err != nil {
		t.Fatal(err)
	}
	s.pace.gap, s.pace.poll = time.Millisecond, 5*time.Millisecond
	return s
}

// serve listens for real, and is gone at the end of the test.
func serve(t testing.TB, s *Server) string {
	t.Helper()
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve() }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := errors.Join(s.Shutdown(ctx), <-done); err != nil {
			t.Error(err)
		}
		http.DefaultClient.CloseIdleConnections()
	})
	return "http://" + s.Addr().String()
}

// ask sends one request straight to the handler.
func ask(s *Server, method, path, body string, headers ...string) *httptest.ResponseRecorder {
	var r *http.Request
	if body == "" {
		r = httptest.NewRequest(method, "http://localhost"+path, http.NoBody)
	} else {
		r = httptest.NewRequest(method, "http://localhost"+path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	rec := httptest.NewRecorder()
	s.Handler().ServeHTTP(rec, r)
	return rec
}

// sound is a request that nothing is wrong with.
const sound = `{
  "name": "checkout-5000",
  "routes": [{"kind": "HTTPRoute", "name": "orders"}],
  "primary": {"service": "orders", "deployment": "orders"},
  "canary": {"service": "orders-canary", "deployment": "orders-canary"}
}`
