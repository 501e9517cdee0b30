//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// suite is what all scenarios share. TestMain fills it in before any of them.
var suite environment

// environment is the way to the cluster, and the programs that were built.
type environment struct {
	kubeconfig, prometheus, auditLog, lab string

	allowSkip   bool
	interrupted context.Context // ends when somebody wants the suite to stop

	dir     string   // of the programs and the logs
	root    string   // of the module
	kubectl []string // command, and its first arguments
	access  kubeconfig
	api     *cluster

	mu   *sync.Mutex
	left map[string]bool // namespaces whose deletion was asked for
}

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	dir, err := os.MkdirTemp("", "shifter-e2e-")
	if err != nil {
		return 1, err
	}
	if suite, err = prepare(ctx, dir); err != nil {
		return 1, errors.Join(err, os.RemoveAll(dir))
	}
	code = m.Run()
	if err := suite.cleared(context.WithoutCancel(ctx)); err != nil {
		return 1, err
	}
	if code == 0 {
		return 0, os.RemoveAll(dir)
	}
	fmt.Fprintf(os.Stderr, "e2e: the logs are kept in %s\n", dir)
	return code, errors.Join(os.Remove(suite.program("shifter")), os.Remove(suite.program("audit")))
}

// prepare reads the environment once, finds the way to the cluster, and builds.
func prepare(ctx context.Context, dir string) (environment, error) {
	e := environment{
		kubeconfig: os.Getenv("KUBECONFIG"), prometheus: os.Getenv("PROMETHEUS_URL"),
		auditLog: os.Getenv("AUDIT_LOG"), lab: os.Getenv("LAB"),
		allowSkip: os.Getenv("E2E_ALLOW_SKIP") == "1", interrupted: ctx,
		dir: dir, mu: new(sync.Mutex), left: map[string]bool{},
	}
	switch {
	case e.kubeconfig == "" || e.prometheus == "":
		return e, errors.New("KUBECONFIG and PROMETHEUS_URL are needed: run the suite with `make e2e`, or set them as `test/lab/lab.sh env` prints them")
	case e.auditLog == "" && !e.allowSkip:
		return e, errors.New("AUDIT_LOG is not set, so no call could be counted: name the API server's audit log, or set E2E_ALLOW_SKIP=1 to do without")
	}
	var err error
	if e.root, err = filepath.Abs(filepath.Join("..", "..")); err != nil {
		return e, err
	}
	if e.kubectl, err = e.findKubectl(); err != nil {
		return e, err
	}
	if e.access, err = e.readKubeconfig(ctx); err != nil {
		return e, err
	}
	if e.api, err = newCluster(e.access); err != nil {
		return e, err
	}
	if err := e.api.do(ctx, "GET", "/version", "", nil); err != nil {
		return e, fmt.Errorf("the cluster of KUBECONFIG does not answer: %w", err)
	}
	return e, errors.Join(
		e.build(ctx, "shifter", "./cmd/shifter", "-tags", "nosandbox"),
		e.build(ctx, "audit", "./test/lab/audit"),
	)
}

// program is the path of one that was built.
func (e environment) program(name string) string { return filepath.Join(e.dir, name) }

func (e environment) build(ctx context.Context, name, pkg string, flags ...string) error {
	args := append([]string{"build", "-trimpath"}, flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, "-o", e.program(name), pkg)...)
	cmd.Dir = e.root
	cmd.Env = append(cmd.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return nil
}

func (e environment) labScript() string { return filepath.Join(e.root, "test", "lab", "lab.sh") }

func (e environment) findKubectl() ([]string, error) {
	if name := os.Getenv("KUBECTL"); name != "" {
		return []string{name}, nil
	}
	if e.lab != "" {
		return []string{e.labScript(), "kubectl"}, nil // of the server's own version
	}
	if path, err := exec.LookPath("kubectl"); err == nil {
		return []string{path}, nil
	}
	return nil, errors.New("there is no kubectl: set KUBECTL, or put one in PATH")
}

// kube runs kubectl and returns what it prints.
func (e environment) kube(ctx context.Context, stdin string, args ...string) (string, error) {
	all := append(slices.Clone(e.kubectl), args...)
	return command(ctx, 3*time.Minute, stdin, all[0], all[1:]...)
}

// inLab runs lab.sh.
func (e environment) inLab(ctx context.Context, args ...string) error {
	_, err := command(ctx, 5*time.Minute, "", e.labScript(), args...)
	return err
}

func command(ctx context.Context, limit time.Duration, stdin, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.WaitDelay = 5 * time.Second
	cmd.Stdin = strings.NewReader(stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), errors.Join(err, ctx.Err()), stderr.String())
	}
	return stdout.String(), nil
}

// needLab skips or fails a scenario that another cluster has no means for.
func (e environment) needLab(t *testing.T, what string) {
	t.Helper()
	if e.lab != "" {
		return
	}
	if e.allowSkip {
		t.Skipf("%s: only a lab of test/lab can do that, and LAB is not set", what)
	}
	t.Fatalf("%s: only a lab of test/lab can do that, and LAB is not set; run `make e2e`, or set E2E_ALLOW_SKIP=1 to skip it", what)
}

// cleared waits until no namespace of the suite is left.
func (e environment) cleared(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 4*time.Minute)
	defer cancel()
	e.mu.Lock()
	names := slices.Sorted(maps.Keys(e.left))
	e.mu.Unlock()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for _, name := range names {
		for {
			gone, err := e.api.missing(ctx, "/api/v1/namespaces/"+name)
			if gone {
				break
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("namespace %s is still there after 4 minutes (%w): delete it by hand", name, errors.Join(err, ctx.Err()))
			case <-tick.C:
			}
		}
	}
	return nil
}

// until waits until a condition is met. The condition says what it saw instead.
func until(t *testing.T, limit time.Duration, what string, met func(ctx context.Context) (ok bool, saw string)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, saw := met(ctx)
		if ok {
			return
		}
		select {
		case <-suite.interrupted.Done():
			t.Fatalf("interrupted while waiting for: %s; last seen: %s", what, saw)
		case <-ctx.Done():
			t.Fatalf("not within %s: %s; last seen: %s", limit, what, saw)
		case <-tick.C:
		}
	}
}

// pause lets some time pass.
func pause(t *testing.T, d time.Duration) {
	t.Helper()
	end := time.Now().Add(d)
	until(t, d+time.Minute, "the end of a pause", func(context.Context) (bool, string) { return !time.Now().Before(end), "" })
}

// lately is a context for what is done after a test, when its own has ended.
func lately(t *testing.T, limit time.Duration) (context.Context, context.CancelFunc) {
	t.Helper()
	return context.WithTimeout(context.WithoutCancel(t.Context()), limit)
}
