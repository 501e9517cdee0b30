package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// These tests run the real program: only a process can be sent a signal, and
// only its exit code tells how it ended.

var binary string

func TestMain(m *testing.M) {
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "go-api-test")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "go-api")
	args := []string{"build", "-o", binary}
	if raceEnabled() {
		args = append(args, "-race")                 // a race in the process then fails it with exit code 66
		_ = os.Setenv("GORACE", "atexit_sleep_ms=0") // else it sleeps 1s before it ends
	}
	if out, err := exec.Command("go", append(args, ".")...).CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "go build: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// raceEnabled tells whether this test binary was built with -race.
func raceEnabled() bool {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return false
	}
	for _, s := range info.Settings {
		if s.Key == "-race" {
			return s.Value == "true"
		}
	}
	return false
}

func TestASlowRequestFinishesAfterSIGTERM(t *testing.T) {
	t.Parallel()
	p := start(t, "--lame-duck=100ms", "--shutdown-timeout=20s")
	slow := p.getInBackground("/work?ms=2000")
	p.waitInFlight(1)
	p.signal(syscall.SIGTERM)

	res := <-slow
	if res.err != nil || res.code != 200 {
		t.Errorf("the slow request: %d, %v", res.code, res.err)
	}
	if !res.close {
		t.Error("its answer leaves the connection open")
	}
	p.wantExit(exitOK)
	if stopped := p.waitLog("stopped"); stopped["requestsCut"] != 0.0 {
		t.Errorf("log: %v", stopped)
	}
}

func TestLameDuckServesButIsNotReady(t *testing.T) {
	t.Parallel()
	p := start(t, "--lame-duck=60s", "--version-name=v2")
	p.signal(syscall.SIGTERM)
	p.waitLog("draining: unready, still accepting")
	for path, want := range map[string]int{"/readyz": 503, "/livez": 200, "/": 200, "/metrics": 200} {
		if res := p.get(path); res.code != want || !res.close || res.version != "v2" {
			t.Errorf("%s: %+v, want %d, close and v2", path, res, want)
		}
	}
	p.signal(syscall.SIGTERM) // enough
	p.wantExit(exitOK)        // nothing was cut
}

func TestASecondSIGTERMEndsAtOnce(t *testing.T) {
	t.Parallel()
	p := start(t, "--lame-duck=60s", "--shutdown-timeout=60s")
	slow := p.getInBackground("/work?ms=60000")
	p.waitInFlight(1)
	p.signal(syscall.SIGTERM)
	p.waitLog("draining: unready, still accepting")
	p.signal(syscall.SIGTERM)

	p.wantExit(exitCut)
	if res := <-slow; res.err == nil {
		t.Errorf("the request was not cut: %+v", res)
	}
	if stopped := p.waitLog("stopped"); stopped["requestsCut"] != 1.0 || stopped["level"] != "ERROR" {
		t.Errorf("log: %v", stopped)
	}
}

func TestASecondSIGTERMEndsTheShutdownToo(t *testing.T) {
	t.Parallel()
	p := start(t, "--lame-duck=0s", "--shutdown-timeout=60s")
	slow := p.getInBackground("/work?ms=60000")
	p.waitInFlight(1)
	p.signal(syscall.SIGTERM)
	p.waitLog("shutting down: listener closed")
	p.signal(os.Interrupt)
	p.wantExit(exitCut)
	<-slow
}

func TestAStuckHandlerEndsAtTheDeadline(t *testing.T) {
	t.Parallel()
	p := start(t, "--lame-duck=50ms", "--shutdown-timeout=300ms")
	one, two := p.getInBackground("/work?ms=60000"), p.getInBackground("/work?ms=60000")
	p.waitInFlight(2)
	p.signal(syscall.SIGTERM)

	p.wantExit(exitCut)
	<-one
	<-two
	if stopped := p.waitLog("stopped"); stopped["requestsCut"] != 2.0 {
		t.Errorf("log: %v", stopped)
	}
}

func TestSIGINTIsGracefulToo(t *testing.T) {
	t.Parallel()
	p := start(t, "--lame-duck=0s")
	p.signal(os.Interrupt)
	p.wantExit(exitOK)
}

func TestIgnoreSigtermSurvivesUntilTheFaultIsTakenBack(t *testing.T) {
	t.Parallel()
	p := start(t, "--ignore-sigterm", "--admin", "--lame-duck=0s")
	p.signal(syscall.SIGTERM)
	p.waitLog("signal ignored, as the fault demands")
	if res := p.get("/readyz"); res.code != 200 || res.close {
		t.Errorf("/readyz: %+v", res)
	}

	req, err := http.NewRequest(http.MethodPut, p.url+"/admin/faults", strings.NewReader(`{"ignoreSigterm":false}`))
	if err != nil {
		t.Fatal(err)
	}
	if res := p.do(req); res.code != 200 {
		t.Fatalf("PUT /admin/faults: %+v", res)
	}
	p.signal(syscall.SIGTERM)
	p.wantExit(exitOK)
}

func TestSlowStartBecomesReadyAndNeverReadyDoesNot(t *testing.T) {
	t.Parallel()
	slow := start(t, "--slow-start=500ms", "--lame-duck=0s")
	never := start(t, "--never-ready", "--lame-duck=0s")
	if res := slow.get("/"); res.code != 200 {
		t.Errorf("/: %+v", res)
	}
	eventually(t, "ready after the slow start", func() bool { return slow.get("/readyz").code == 200 })
	if res := never.get("/readyz"); res.code != 503 || strings.TrimSpace(res.body) != "never-ready" {
		t.Errorf("/readyz: %+v", res)
	}
}

func TestWhatCannotRunSaysSoInItsExitCode(t *testing.T) {
	t.Parallel()
	p := start(t, "--lame-duck=0s")
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--error-rate=2"}, exitUsage, "error rate"},
		{[]string{"--no-such-flag"}, exitUsage, "no-such-flag"},
		{[]string{"--help"}, exitOK, "GO_API_LAME_DUCK"},
		{[]string{"--listen", strings.TrimPrefix(p.url, "http://")}, exitCut, "address already in use"},
	} {
		cmd := exec.Command(binary, c.args...)
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil {
			t.Fatal(err)
		}
		if code := cmd.ProcessState.ExitCode(); code != c.code || !strings.Contains(string(out), c.want) {
			t.Errorf("%v: exit %d, want %d, saying %q:\n%s", c.args, code, c.code, c.want, out)
		}
	}
}

// process is a running go-api.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	url    string
	exited chan struct{}

	mu   sync.Mutex
	logs []map[string]any
	raw  []string // what was not JSON: a panic, a race report
}

// start runs the program on a free port and returns when it listens.
func start(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{t: t, exited: make(chan struct{})}
	p.cmd = exec.Command(binary, append([]string{"--listen=127.0.0.1:0"}, args...)...)
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.exited)
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			p.note(lines.Bytes())
		}
		_ = p.cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.exited
		if t.Failed() {
			t.Logf("pid %d %v\n%v\n%s", p.cmd.Process.Pid, p.cmd.Args[1:], p.logs, strings.Join(p.raw, "\n"))
		}
	})
	p.url = "http://" + p.waitLog("serving")["listening"].(string)
	return p
}

func (p *process) note(line []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var entry map[string]any
	if json.Unmarshal(line, &entry) != nil {
		p.raw = append(p.raw, string(line))
		return
	}
	p.logs = append(p.logs, entry)
}

// waitLog returns the first log line with that message.
func (p *process) waitLog(msg string) (found map[string]any) {
	p.t.Helper()
	eventually(p.t, "log line "+msg, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, entry := range p.logs {
			if entry["msg"] == msg {
				found = entry
				return true
			}
		}
		return false
	})
	return found
}

func (p *process) signal(sig os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.t.Fatal(err)
	}
}

// wait returns the exit code, which is -1 for a process that a signal killed.
func (p *process) wait() int {
	p.t.Helper()
	select {
	case <-p.exited:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(15 * time.Second):
		p.t.Fatal("the process did not end within 15s")
		return 0
	}
}

func (p *process) wantExit(code int) {
	p.t.Helper()
	if got := p.wait(); got != code {
		p.t.Errorf("exit code %d, want %d", got, code)
	}
}

func (p *process) waitInFlight(n int) {
	p.t.Helper()
	line := fmt.Sprintf("\nhttp_requests_in_flight %d\n", n)
	eventually(p.t, strings.TrimSpace(line), func() bool { return strings.Contains(p.get("/metrics").body, line) })
}

// result is what a client saw.
type result struct {
	code          int
	body, version string
	close         bool // the answer said "Connection: close"
	err           error
}

func (p *process) get(path string) result {
	p.t.Helper()
	req, err := http.NewRequest(http.MethodGet, p.url+path, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	return p.do(req)
}

func (p *process) getInBackground(path string) <-chan result {
	done := make(chan result, 1)
	go func() { done <- p.get(path) }()
	return done
}

// Each request has a connection of its own, which is closed afterwards: what
// Shutdown does with spare ones is rolling_test.go's business. The server must
// not see that wish ("Connection: close" in the request), or it would repeat
// it in the answer, which is just what the tests look for.
func (p *process) do(req *http.Request) (r result) {
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: 90 * time.Second}
	res, err := client.Do(req)
	if err != nil {
		return result{err: err}
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil && !errors.Is(err, io.EOF) {
		return result{err: err}
	}
	return result{code: res.StatusCode, body: string(body), version: res.Header.Get("X-Version"), close: res.Close}
}
