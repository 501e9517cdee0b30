package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/shifter-dev/shifter/internal/analysis"
	"github.com/shifter-dev/shifter/internal/drain"
	"github.com/shifter-dev/shifter/internal/release"
	"github.com/shifter-dev/shifter/internal/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a small world for one engine or several: routes, Deployments, a data
// plane that follows the routes with a lag, telemetry with a lag, and the real
// store. It is every port of the engine, and writes each call down in one log.
// Faults are put in by hook.
type world struct {
	*store.Memory

	mu    sync.Mutex
	mute  bool // nothing is logged
	log   []entry
	calls map[string]int
	// hook is asked around each call: before it with done false, after it with
	// done true. An error is what the call answers; before, it is also not made.
	hook func(c call, done bool) error

	releases map[release.Key]*scene
	stirs    map[chan struct{}]bool
	said     []slog.Record // by the engine
}

// Handle keeps what the engine says in its log.
func (w *world) Handle(_ context.Context, r slog.Record) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.said = append(w.said, r)
	return nil
}

func (w *world) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }
func (w *world) WithAttrs([]slog.Attr) slog.Handler           { return w }
func (w *world) WithGroup(string) slog.Handler                { return w }

// says returns the attributes of every log line with the message.
func (w *world) says(message string) (out []map[string]any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.said {
		if r.Message != message {
			continue
		}
		line := map[string]any{}
		r.Attrs(func(a slog.Attr) bool { line[a.Key] = a.Value.Any(); return true })
		out = append(out, line)
	}
	return out
}

// call is one call of a port. n counts the writes (saves and effects) from 1.
type call struct {
	port string
	key  release.Key
	what string
	n    int
	ctx  context.Context
}

// entry is one line of the log.
type entry struct {
	at     time.Time
	port   string
	key    release.Key
	what   string
	err    error
	action release.Action
	fence  release.Fence
	// saved is the record at the time of an effect, or as a save left it.
	saved release.Release
}

func (e entry) String() string { return e.port + " " + e.what }

// as is an entry's action as one of its kind, empty if it is another.
func as[T release.Action](e entry) T {
	a, _ := e.action.(T)
	return a
}

// effect reports a call that changes the world, other than the journal.
func (e entry) effect() bool { return e.action != nil }

// scene is what one release's objects are like.
type scene struct {
	key    release.Key
	split  []release.Pair // of the one route
	epoch  uint64
	marked string
	saved  release.Release // as the last save left it
	tracks [2]*deployment
	// shares are the shares of the primary that the data plane came to serve, and
	// when.
	shares []shareAt
	rps    float64
	// bad is the rate of failures of a track at a share of the primary.
	bad func(t release.Track, primaryShare float64) float64
}

type shareAt struct {
	at    time.Time
	share float64
}

type deployment struct {
	uid       string
	desired   int
	template  release.Template
	history   []release.Template
	changedAt time.Time // of desired or template
	was       int       // pods before the change
	rolled    bool      // the template changed
	stuck     int       // pods that never become ready
}

const (
	lag     = time.Second // of the data plane
	startup = 2 * time.Second
	leave   = time.Second
)

func newWorld() *world {
	return &world{
		Memory: store.NewMemory(), calls: map[string]int{}, releases: map[release.Key]*scene{}, stirs: map[chan struct{}]bool{},
	}
}

// spec is like the demo's profile: it changes durations and sizes only.
func spec(name string) release.Spec {
	s := release.Spec{
		Routes: []release.RouteRef{{Kind: "HTTPRoute", Namespace: "shop", Name: name}},
		Tracks: [2]release.TrackSpec{{Service: name + "-p", Deployment: name + "-p"}, {Service: name + "-c", Deployment: name + "-c"}},
		Size:   release.Size{Headroom: 1, MinReplicas: 1},
		Holds:  20 * time.Second,
		Gate:   analysis.Defaults(),
	}.WithDefaults()
	s.Gate.Soak, s.Gate.MaxWindow, s.Gate.TelemetryGrace = 15*time.Second, time.Minute, 15*time.Second
	s.Deadlines.Settle, s.Deadlines.Request, s.Deadlines.Drain = 5*time.Second, 5*time.Second, time.Minute
	return s
}

// admit makes a release with its objects: all traffic on the canary, four pods a
// side, the primary's history holding v1.
func (w *world) admit(t testing.TB, name string) release.Key {
	t.Helper()
	k := release.Key{Namespace: "shop", Name: name}
	sc := &scene{key: k, split: []release.Pair{{Primary: 0, Canary: 100}}, rps: 1000, shares: []shareAt{{time.Now().Add(-time.Hour), 0}}}
	v1 := release.Template{Hash: "v1-" + name, Revision: 1, Images: map[string]string{"app": "app:1"}}
	for tr := range sc.tracks {
		v2 := release.Template{Hash: fmt.Sprintf("v2-%s-%d", name, tr), Revision: 2, Images: map[string]string{"app": "app:2"}}
		sc.tracks[tr] = &deployment{uid: fmt.Sprintf("uid-%s-%d", name, tr), desired: 4, was: 4, template: v2, history: []release.Template{v2, v1}}
	}
	s := spec(name)
	b := release.Binding{Key: k, Full: 4, Scrape: time.Second, Routes: []release.BoundRoute{{
		Ref: s.Routes[0], UID: "route-" + name, Rules: []string{"0"}, Split: slices.Clone(sc.split), Accepted: release.AcceptedYes,
	}}}
	for tr, d := range sc.tracks {
		b.Tracks[tr] = release.BoundTrack{
			Namespace: "shop", Deployment: s.Tracks[tr].Deployment, UID: d.uid, Replicas: 4, Template: d.template,
			UndoTo: &v1, Service: s.Tracks[tr].Service,
		}
	}
	w.mu.Lock()
	w.releases[k] = sc
	w.mu.Unlock()
	if err := w.Create(t.Context(), release.New(k, "uid-"+name, s, b, "alice", time.Now())); err != nil {
		t.Fatal(err)
	}
	return k
}

// around makes one call: the hook before, the call, the hook after, the log.
func (w *world) around(ctx context.Context, e entry, write bool, do func(*scene, *entry) error) error {
	w.mu.Lock()
	w.calls[e.port]++
	c := call{port: e.port, key: e.key, what: e.what, ctx: ctx}
	if write {
		w.calls["writes"]++
		c.n = w.calls["writes"]
	}
	hook := w.hook
	w.mu.Unlock()
	ask := func(done bool) error {
		if hook == nil {
			return nil
		}
		return hook(c, done)
	}
	err := ask(false)
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = func() error {
			w.mu.Lock()
			defer w.mu.Unlock()
			return do(w.releases[e.key], &e)
		}()
		if lost := ask(true); err == nil {
			err = lost
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	e.at, e.err = time.Now(), err
	if !w.mute {
		w.log = append(w.log, e)
	}
	return err
}

// stir rings for all watchers, as a change of an object would.
func (w *world) stir() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.stirs {
		ring(c)
	}
}

// The Router.

type router struct{ *world }

func (w router) Read(ctx context.Context, b release.Binding) (out []release.RouteState, err error) {
	err = w.around(ctx, entry{port: "Router.Read", key: b.Key}, false, func(s *scene, _ *entry) error {
		now := time.Now()
		out = []release.RouteState{{
			Ref: b.Routes[0].Ref, UID: "route-" + b.Key.Name,
			Split:    release.Known(slices.Clone(s.split), now),
			Accepted: release.Known(release.AcceptedYes, now),
			Epoch:    release.Known(s.epoch, now),
			Marked:   release.Known(s.marked, now),
		}}
		return nil
	})
	return out, err
}

func (w router) SetShare(ctx context.Context, a release.SetShare, f release.Fence) (release.Receipt, error) {
	e := entry{port: "SetShare", key: f.Key, what: fmt.Sprint(a.To), action: a, fence: f}
	err := w.around(ctx, e, true, func(s *scene, e *entry) error {
		e.saved = s.saved
		switch {
		case f.Epoch < s.epoch:
			return fmt.Errorf("route: %w", release.ErrFenced)
		case !slices.Equal(s.split, a.From):
			return fmt.Errorf("route: %w", release.ErrConflict)
		}
		s.epoch, s.split = f.Epoch, slices.Clone(a.To)
		s.shares = append(s.shares, shareAt{time.Now().Add(lag), a.To[0].Share(release.Primary)})
		return nil
	})
	return release.Receipt{At: time.Now()}, err
}

func (w router) Mark(ctx context.Context, a release.Mark, f release.Fence) error {
	e := entry{port: "Mark", key: f.Key, what: fmt.Sprint(a.On), action: a, fence: f}
	return w.around(ctx, e, true, func(s *scene, e *entry) error {
		e.saved = s.saved
		if f.Epoch < s.epoch {
			return fmt.Errorf("route: %w", release.ErrFenced)
		}
		s.epoch, s.marked = f.Epoch, ""
		if a.On {
			s.marked = f.Key.Name
		}
		return nil
	})
}

// record is the release as it lies in the store at this moment.
func (w *world) record(k release.Key) release.Release {
	rec, err := w.Load(context.Background(), k)
	if err != nil {
		panic(err)
	}
	return rec.Release
}

// The Workloads.

type workloads struct{ *world }

func (w workloads) Read(ctx context.Context, b release.Binding) (out [2]release.TrackState, err error) {
	err = w.around(ctx, entry{port: "Workloads.Read", key: b.Key}, false, func(s *scene, _ *entry) error {
		for tr, d := range s.tracks {
			out[tr] = d.state()
		}
		return nil
	})
	return out, err
}

func (d *deployment) state() release.TrackState {
	now := time.Now()
	since := now.Sub(d.changedAt)
	ready, leaving, stale := min(d.was, d.desired), 0, 0
	if since >= startup {
		ready = d.desired
	}
	if gone := d.was - d.desired; gone > 0 && since < leave {
		leaving = gone
	}
	if d.rolled && since < 2*startup {
		stale = d.desired
	}
	ready = max(ready-d.stuck, 0)
	pods := make([]string, ready+leaving)
	for i := range pods {
		pods[i] = fmt.Sprint(d.uid, "-", i)
	}
	return release.TrackState{
		UID: d.uid, Desired: release.Known(d.desired, now), Ready: release.Known(ready, now), Endpoints: release.Known(ready, now),
		Leaving: release.Known(leaving, now), Stale: release.Known(stale, now), Floor: release.Known(-1, now),
		Pods: release.Known(pods, now), Template: release.Known(d.template, now), History: slices.Clone(d.history),
	}
}

func (d *deployment) change(desired int, rolled bool) {
	d.was, d.desired, d.changedAt, d.rolled = d.desired, desired, time.Now(), rolled
}

func (w *world) keyOf(uid string) release.Key {
	w.mu.Lock()
	defer w.mu.Unlock()
	for k, s := range w.releases {
		for _, d := range s.tracks {
			if d.uid == uid {
				return k
			}
		}
	}
	return release.Key{}
}

func (w workloads) Scale(ctx context.Context, a release.Scale) error {
	e := entry{port: "Scale", key: w.keyOf(a.UID), what: fmt.Sprint(a.Track, " ", a.Replicas), action: a}
	return w.around(ctx, e, true, func(s *scene, e *entry) error {
		e.saved = s.saved
		s.tracks[a.Track].change(a.Replicas, false)
		return nil
	})
}

func (w workloads) Promote(ctx context.Context, a release.Promote) error {
	e := entry{port: "Promote", key: w.keyOf(a.UID), what: fmt.Sprint(a.Track), action: a}
	return w.around(ctx, e, true, func(s *scene, e *entry) error {
		e.saved = s.saved
		d := s.tracks[a.Track]
		if d.template.Hash == a.From.Hash {
			d.template = release.Template{Hash: a.From.Hash + "-new", Revision: 3, Images: a.Images}
			d.history = append([]release.Template{d.template}, d.history...)
			d.change(d.desired, true)
		}
		return nil
	})
}

func (w workloads) SetTemplate(ctx context.Context, a release.SetTemplate) error {
	e := entry{port: "SetTemplate", key: w.keyOf(a.UID), what: fmt.Sprint(a.Track, " ", a.To.Hash), action: a}
	return w.around(ctx, e, true, func(s *scene, e *entry) error {
		e.saved = s.saved
		d := s.tracks[a.Track]
		if d.template.Hash == a.To.Hash {
			return nil
		}
		if d.template.Hash != a.From.Hash {
			return fmt.Errorf("deployment: %w", release.ErrConflict)
		}
		d.template = a.To
		d.change(d.desired, true)
		return nil
	})
}

func (w workloads) SetFloor(ctx context.Context, a release.SetFloor) error {
	e := entry{port: "SetFloor", key: w.keyOf(a.UID), action: a}
	return w.around(ctx, e, true, func(*scene, *entry) error { return nil })
}

// The Telemetry: counters that are scraped each whole second.

func (w *world) Look(ctx context.Context, a release.Ask) (rd release.Reading, err error) {
	err = w.around(ctx, entry{port: "Look", key: a.Binding.Key}, false, func(s *scene, _ *entry) error {
		rd = s.look(a)
		return nil
	})
	return rd, err
}

func (s *scene) look(a release.Ask) release.Reading {
	from, to := a.Since.Truncate(time.Second), a.Now.Truncate(time.Second)
	rd := release.Reading{Asked: a.Now, At: to, Scrape: time.Second}
	for at := from; at.Before(to); at = at.Add(time.Second) {
		counts := s.count(at, at.Add(time.Second))
		rd.Windows = append(rd.Windows, release.TrackWindow{Metric: analysis.MetricErrors, From: at, To: at.Add(time.Second), Counts: counts})
		rd.Proxies = append(rd.Proxies, release.ProxyLook{
			Proxy: "gateway", From: at, To: at.Add(time.Second), New: [2]float64{counts[0].Requests, counts[1].Requests},
		})
	}
	if !to.After(from) {
		return rd
	}
	for tr := range rd.Drain {
		n := s.count(from, to)[tr].Requests
		sig := drain.Signals{At: to, From: from, New: n, Source: drain.SourceApp}
		if n > 0 {
			sig.InFlight, sig.Senders = 1, []string{"gateway"}
		}
		for _, p := range a.Pods[tr] {
			sig.Pods = append(sig.Pods, drain.PodSignal{Pod: p, InFlight: sig.InFlight / float64(len(a.Pods[tr]))})
		}
		rd.Drain[tr] = sig
	}
	return rd
}

// count is what each track served from one time to another.
func (s *scene) count(from, to time.Time) [2]analysis.Counts {
	var out [2]analysis.Counts
	for i, x := range s.shares {
		begin, end := x.at, to
		if i+1 < len(s.shares) {
			end = s.shares[i+1].at
		}
		if begin.Before(from) {
			begin = from
		}
		if end.After(to) {
			end = to
		}
		if !end.After(begin) {
			continue
		}
		n := s.rps * end.Sub(begin).Seconds()
		for tr, share := range []float64{x.share, 100 - x.share} {
			c := analysis.Counts{Requests: n * share / 100}
			if s.bad != nil {
				c.Bad = c.Requests * s.bad(release.Track(tr), x.share)
			}
			out[tr] = out[tr].Add(c)
		}
	}
	return out
}

// The Journal: the real store, written down.

type journal struct{ *world }

func (w journal) Load(ctx context.Context, k release.Key) (rec release.Record, err error) {
	err = w.around(ctx, entry{port: "Load", key: k}, false, func(*scene, *entry) (err error) {
		rec, err = w.Memory.Load(ctx, k)
		return err
	})
	return rec, err
}

func (w journal) Save(ctx context.Context, r release.Release, v release.Version) (next release.Version, err error) {
	e := entry{port: "Save", key: r.Key, what: fmt.Sprint(r.Phase, " ", r.Intent)}
	err = w.around(ctx, e, true, func(s *scene, e *entry) (err error) {
		if next, err = w.Memory.Save(ctx, r, v); err == nil {
			s.saved, e.saved = r, r
		}
		return err
	})
	return next, err
}

func (w journal) List(ctx context.Context) (keys []release.Key, err error) {
	err = w.around(ctx, entry{port: "List"}, false, func(*scene, *entry) (err error) {
		keys, err = w.Memory.List(ctx)
		return err
	})
	return keys, err
}

func (w journal) Watch(ctx context.Context) (c <-chan release.Key, err error) {
	err = w.around(ctx, entry{port: "Watch"}, false, func(*scene, *entry) (err error) {
		c, err = w.Memory.Watch(ctx)
		return err
	})
	return c, err
}

// The Watcher.

type stirrer struct{ *world }

func (w stirrer) Watch(ctx context.Context, _ release.Binding) (<-chan struct{}, error) {
	in, out := make(chan struct{}, 1), make(chan struct{})
	w.mu.Lock()
	w.stirs[in] = true
	w.mu.Unlock()
	go func() {
		defer close(out)
		for {
			select {
			case <-in:
				select {
				case out <- struct{}{}:
				case <-ctx.Done():
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return out, nil
}

// engine makes an engine over the world, with the next epoch.
func (w *world) engine(t testing.TB) *Engine {
	t.Helper()
	epoch, err := w.NextEpoch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return New(Config{
		Journal: journal{w}, Router: router{w}, Workloads: workloads{w}, Telemetry: w, Watchers: []Watcher{stirrer{w}},
		Epoch: epoch, Logger: slog.New(w),
	})
}

// start runs an engine until the test or the returned function stops it.
func start(t testing.TB, e *Engine) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				t.Errorf("Run: %v", err)
			}
		})
	}
	return stop
}

// finish waits until a release has ended, or fails the test after an hour of the
// bubble's time.
func (w *world) finish(t testing.TB, k release.Key) release.Release {
	t.Helper()
	for range 3600 {
		if w.ended(k) {
			return w.record(k)
		}
		time.Sleep(time.Second)
	}
	t.Fatalf("%s has not ended: %+v", k, w.record(k).Phase)
	return release.Release{}
}

// ended reports whether a release was saved as ended.
func (w *world) ended(k release.Key) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.releases[k].saved.Phase.Terminal()
}

// entries returns the log's entries of one release that a filter lets through.
func (w *world) entries(k release.Key, keep func(entry) bool) []entry {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []entry
	for _, e := range w.log {
		if e.key == k && keep(e) {
			out = append(out, e)
		}
	}
	return out
}

func (w *world) count(port string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calls[port]
}

func (w *world) allCalls() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.calls)
}

func (w *world) setHook(h func(c call, done bool) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hook = h
}

// written is the story of the primary's share as it was written.
func (w *world) written(k release.Key) []float64 {
	var out []float64
	for _, e := range w.entries(k, func(e entry) bool { return e.port == "SetShare" && e.err == nil }) {
		out = append(out, as[release.SetShare](e).To[0].Share(release.Primary))
	}
	return out
}

// checkEffects checks on the log what must hold for every effect.
func (w *world) checkEffects(t testing.TB, k release.Key) {
	t.Helper()
	var epoch uint64
	for _, e := range w.entries(k, entry.effect) {
		a := e.action
		intended := slices.ContainsFunc(e.saved.Intent, func(i release.Action) bool {
			if u, ok := i.(release.Undo); ok {
				i = release.SetTemplate(u)
			}
			return i.String() == a.String()
		})
		if e.saved.Key == k && !intended {
			t.Errorf("I12: %s at %s, and the saved intent is %v", a, e.at, e.saved.Intent)
		}
		if e.fence.Key == k {
			if e.fence.Epoch < epoch {
				t.Errorf("I8: epoch %d after %d", e.fence.Epoch, epoch)
			}
			epoch = e.fence.Epoch
		}
	}
}

var errLost = errors.New("the reply was lost")
