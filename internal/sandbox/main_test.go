package sandbox_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/shifter-dev/shifter/internal/release"
	"github.com/shifter-dev/shifter/internal/sandbox"
)

// app is the go-api binary, built once.
var app string

func TestMain(m *testing.M) { os.Exit(runTests(m)) }

func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "sandbox")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	app = filepath.Join(dir, "go-api")
	if out, err := exec.Command("go", "build", "-o", app, "../../examples/go-api").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building examples/go-api: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// rate is a load that a busy machine can carry under the race detector: the
// load generator does not slow down when the answers do.
const rate = 40

// quick is a world with short times, and without load.
func quick() sandbox.Config {
	c := sandbox.Defaults()
	c.App = app
	c.RPS = 0
	c.Paths = []string{"/work?ms=10"}
	c.Replicas = 2
	c.Propagation = 300 * time.Millisecond
	c.EndpointLag = 100 * time.Millisecond
	c.Probe = 100 * time.Millisecond
	c.LameDuck, c.Grace = 600*time.Millisecond, 6*time.Second
	if os.Getenv("SANDBOX_LOG") != "" {
		c.Logger = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	return c
}

// start runs a world for the time of the test, and checks that it leaves
// neither goroutines nor processes behind.
func start(t *testing.T, cfg sandbox.Config) *sandbox.World {
	t.Helper()
	t.Cleanup(func() { goleak.VerifyNone(t) })
	w, err := sandbox.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, w) })
	return w
}

func stop(t *testing.T, w *sandbox.World) {
	t.Helper()
	pods := w.Pods()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	w.Stop(ctx)
	for _, p := range pods {
		if p.PID != 0 && syscall.Kill(p.PID, 0) == nil {
			t.Errorf("after Stop process %d of pod %s is there", p.PID, p.Name)
		}
	}
	if left := w.Pods(); len(left) > 0 {
		t.Errorf("after Stop there are pods: %v", left)
	}
}

// eventually waits until ok, with a deadline.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); {
		if ok() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("waited in vain: %s", what)
}

func noErr(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// bind makes the binding that an admission would.
func bind(t *testing.T, w *sandbox.World) release.Binding {
	t.Helper()
	spec := release.Spec{Routes: []release.RouteRef{sandbox.RouteRef()}, Tracks: sandbox.Tracks()}
	routes, err := w.Routes().Resolve(t.Context(), sandbox.Namespace, spec)
	noErr(t, err)
	tracks, err := w.Workloads().Resolve(t.Context(), sandbox.Namespace, spec)
	noErr(t, err)
	return release.Binding{Key: release.Key{Namespace: sandbox.Namespace, Name: "r1"}, Routes: routes, Tracks: tracks}
}

// split writes the weights as a release would.
func split(t *testing.T, w *sandbox.World, primary int32) {
	t.Helper()
	b := bind(t, w)
	to := release.Pair{Primary: primary, Canary: 100 - primary}
	_, err := w.Routes().SetShare(t.Context(), release.SetShare{
		Route: b.Routes[0].Ref, UID: b.Routes[0].UID, From: b.Routes[0].Split, To: []release.Pair{to},
	}, release.Fence{Key: b.Key, Epoch: 1})
	noErr(t, err)
}

func scale(t *testing.T, w *sandbox.World, tr release.Track, n int) {
	t.Helper()
	noErr(t, w.Workloads().Scale(t.Context(), release.Scale{Track: tr, UID: bind(t, w).Tracks[tr].UID, Replicas: n}))
}

// undo takes the primary back to v1.
func undo(t *testing.T, w *sandbox.World) {
	t.Helper()
	b := bind(t, w).Tracks[release.Primary]
	noErr(t, w.Workloads().SetTemplate(t.Context(), release.SetTemplate{
		Track: release.Primary, UID: b.UID, From: b.Template, To: *b.UndoTo,
	}))
}

func track(t *testing.T, w *sandbox.World, tr release.Track) release.TrackState {
	t.Helper()
	states, err := w.Workloads().Read(t.Context(), bind(t, w))
	noErr(t, err)
	return states[tr]
}

// quiet stops the load and waits for the last answer.
func quiet(t *testing.T, w *sandbox.World) sandbox.Report {
	t.Helper()
	noErr(t, w.SetRate(0))
	sent := -1
	eventually(t, "the load is over", func() bool {
		r := w.Report()
		over := r.InFlight == 0 && r.Sent == sent
		sent = r.Sent
		return over
	})
	return w.Report()
}

// nothingLost checks that the client got an answer to everything.
func nothingLost(t *testing.T, r sandbox.Report) {
	t.Helper()
	if r.Lost() != 0 || r.Sent == 0 {
		t.Fatalf("of %d requests %d were lost and %d not sent: %+v", r.Sent, r.Lost(), r.Unsent, r.Failures)
	}
}
