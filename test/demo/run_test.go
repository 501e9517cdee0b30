//go:build scenarios

package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// limit is the longest that one scenario may take: several times what it needs.
const limit = 6 * time.Minute

// root is the folder of the module: tests run in their package's folder.
func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// build builds shifter and go-api into a folder of the test's own, as `make
// build` does, and returns it.
func build(t *testing.T, flags ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, program := range []string{"cmd/shifter", "examples/go-api"} {
		args := append([]string{"build", "-trimpath", "-ldflags", "-s -w"}, flags...)
		cmd := exec.CommandContext(t.Context(), "go", append(args, "-o", filepath.Join(dir, filepath.Base(program)), "./"+program)...)
		cmd.Dir = root(t)
		cmd.Env = append(cmd.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, out)
		}
	}
	return dir
}

// outcome is how a demo ended.
type outcome struct {
	answer
	code   int
	stderr string
	took   time.Duration
}

// play runs one scenario from the binaries in dir to its end.
func play(t *testing.T, dir, scenario string, flags ...string) outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	args := append([]string{
		"demo", "--scenario", scenario, "--exit", "-o", "json",
		"--listen", "127.0.0.1:0", "--app", filepath.Join(dir, "go-api"),
	}, flags...)
	cmd := exec.CommandContext(ctx, filepath.Join(dir, "shifter"), args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	// Asked first, so that it can end its pods; after the delay it is killed.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 45 * time.Second
	began := time.Now()
	err := cmd.Run()
	took := time.Since(began).Round(100 * time.Millisecond)

	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("standard error of scenario %s:\n%s\nstandard output:\n%s", scenario, stderr.String(), stdout.String())
		}
	})
	for _, left := range running(t, dir) {
		t.Errorf("scenario %s left a process running: %s", scenario, left)
	}
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		t.Fatalf("scenario %s was not over after %s", scenario, took)
	case err != nil && !errors.As(err, &exit):
		t.Fatalf("scenario %s did not run: %v", scenario, err)
	}
	o := outcome{code: cmd.ProcessState.ExitCode(), stderr: stderr.String(), took: took}
	dec := json.NewDecoder(&stdout)
	if err := dec.Decode(&o.answer); err != nil {
		t.Fatalf("standard output of scenario %s is not the JSON of its end (exit code %d): %v", scenario, o.code, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		t.Errorf("standard output of scenario %s has more than one document", scenario)
	}
	o.tell(t, scenario)
	return o
}

// running lists the processes whose program lies in dir, where the system can
// tell; elsewhere it is empty.
func running(t *testing.T, dir string) []string {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/exe")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, link := range links {
		exe, err := os.Readlink(link)
		if err == nil && strings.HasPrefix(exe, dir+string(filepath.Separator)) {
			found = append(found, exe+" (process "+filepath.Base(filepath.Dir(link))+")")
		}
	}
	return found
}

// tell logs what a reader of the log wants to know of a run.
func (o outcome) tell(t *testing.T, scenario string) {
	t.Helper()
	s, r := o.Release.Status, o.Report
	t.Logf("%s: %s (%s), exit %d, after %s; %d requests sent, %d failed, %d of them injected, %d lost, by version %v",
		scenario, s.Phase, s.Reason, o.code, o.took, r.Sent, r.Failed, r.Injected, r.Lost, r.ByVersion)
	for _, st := range o.Release.Steps {
		took := "-"
		if st.Written != nil && st.Passed != nil {
			took = st.Passed.Sub(*st.Written).Round(100 * time.Millisecond).String()
		}
		verdict, size := "no verdict", "-"
		if st.Gate != nil {
			verdict = st.Gate.Outcome + " " + st.Gate.Reason
		}
		if st.Replicas != nil {
			size = jsonOf(*st.Replicas)
		}
		t.Logf("  step %g: %s, %s, shown by %q, from written to passed %s, replicas %s", st.Share, st.State, verdict, st.ShownBy, took, size)
	}
	if d := s.Drain; d != nil {
		t.Logf("  drain of %s: %s by %s after %.1f s, %g cut", d.Track, d.Status, d.Source, d.Took, d.Cut)
	}
	if h := s.Harm; h != nil {
		t.Logf("  harm: %.0f bad requests too many, between %.0f and %.0f", h.Mid, h.Low, h.High)
	}
}

func jsonOf(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}
