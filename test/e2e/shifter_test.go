//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// house says over what a shifter is to be started.
type house struct {
	name       string // of the log
	own        string // namespace of its records
	kubeconfig string
	prometheus string
}

// process is one running `shifter serve`.
type process struct {
	house

	base  string // URL of its API
	cmd   *exec.Cmd
	said  *said
	ended chan struct{} // closed when it has ended
	// excused says that it may have ended without being asked to.
	excused bool
}

// stopTime is how long a shifter may take to end when it is asked to.
const stopTime = 40 * time.Second

// launch starts a shifter. It does not wait until that serves.
func launch(t *testing.T, h house) *process {
	t.Helper()
	log, err := os.OpenFile(suite.program(h.name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	p := &process{house: h, said: &said{file: log, not: h.prometheus}, ended: make(chan struct{})}
	p.cmd = exec.Command(suite.program("shifter"), "serve",
		"--kubeconfig", h.kubeconfig, "--namespace", h.own, "--listen", "127.0.0.1:0",
		"--prometheus", h.prometheus, "--scrape-interval", "2s", "--dev", "--verbose")
	p.cmd.Stdout, p.cmd.Stderr = p.said, p.said
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait() // how it ended is read from the process state
		_ = log.Close()
		close(p.ended)
	}()
	t.Cleanup(func() {
		killed := p.over() && p.excused
		p.stop(t)
		if t.Failed() && !killed {
			t.Logf("shifter's log: %s", p.tail())
		}
	})
	return p
}

// start starts a shifter and waits until it serves.
func start(t *testing.T, h house) *process {
	t.Helper()
	p := launch(t, h)
	until(t, time.Minute, "a shifter that serves ("+h.name+")", func(ctx context.Context) (bool, string) {
		if p.over() {
			t.Fatalf("shifter (%s) has ended at once", h.name) // its end says the rest
		}
		if p.base = p.said.url(); p.base == "" {
			return false, "no URL on standard error"
		}
		code, body, err := p.call(ctx, "GET", "/readyz", nil)
		return code == http.StatusOK, fmt.Sprintf("%d %s %v", code, body, err)
	})
	return p
}

func (p *process) over() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// stop asks it to end, and checks that it does so in good order. Twice is as once.
func (p *process) stop(t *testing.T) {
	t.Helper()
	if p.over() {
		if !p.excused {
			t.Errorf("shifter (%s) has ended by itself, with exit code %d", p.name, p.cmd.ProcessState.ExitCode())
		}
		return
	}
	p.excused = true
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("shifter (%s) could not be asked to end: %v", p.name, err)
	}
	late := time.NewTimer(stopTime)
	defer late.Stop()
	select {
	case <-p.ended:
		if code := p.cmd.ProcessState.ExitCode(); code != 0 {
			t.Errorf("shifter (%s) ended with exit code %d after SIGTERM; want 0", p.name, code)
		}
	case <-late.C:
		p.kill()
		t.Errorf("shifter (%s) had not ended %s after SIGTERM, and was killed", p.name, stopTime)
	}
}

// kill ends it as a power cut would.
func (p *process) kill() {
	p.excused = true
	_ = p.cmd.Process.Kill() // an error: it has ended
	<-p.ended
}

// tail is the end of its log.
func (p *process) tail() string {
	path := suite.program(p.name + ".log")
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimRight(string(b), "\n"), "\n")
	return path + ", its last lines:\n" + strings.Join(lines[max(0, len(lines)-80):], "\n")
}

// call makes a call to its API.
func (p *process) call(ctx context.Context, method, path string, in any) (code int, body []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, 35*time.Second)
	defer cancel()
	var sent bytes.Buffer
	if in != nil {
		if err := json.NewEncoder(&sent).Encode(in); err != nil {
			return 0, nil, err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, p.base+path, &sent)
	if err != nil {
		return 0, nil, err
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	client := http.Client{}
	resp, err := client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	var got bytes.Buffer
	_, err = got.ReadFrom(resp.Body)
	return resp.StatusCode, got.Bytes(), err
}

func releasesOf(ns string) string { return "/v1/namespaces/" + ns + "/releases" }

// read asks for a release.
func (p *process) read(ctx context.Context, ns, name string) (r release, raw []byte, err error) {
	code, raw, err := p.call(ctx, "GET", releasesOf(ns)+"/"+name, nil)
	if err == nil && code != http.StatusOK {
		err = fmt.Errorf("release %s/%s: %d %s", ns, name, code, raw)
	}
	if err != nil {
		return r, raw, err
	}
	return r, raw, json.Unmarshal(raw, &r)
}

// said takes what a shifter says, keeps it in a file, and finds the URL in it.
type said struct {
	file *os.File
	not  string // a URL that is not its own

	mu    sync.Mutex
	text  []byte
	found string
}

var ownURL = regexp.MustCompile(`http://127\.0\.0\.1:\d+`)

// Write implements io.Writer.
func (s *said) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text = append(s.text, b...)
	if s.found == "" {
		// A number at the very end may not be whole yet.
		for _, at := range ownURL.FindAllIndex(s.text, -1) {
			if u := string(s.text[at[0]:at[1]]); at[1] < len(s.text) && u != s.not {
				s.found = u
				break
			}
		}
	}
	return s.file.Write(b)
}

func (s *said) url() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.found
}

// says reports whether a line matches.
func (s *said) says(line *regexp.Regexp) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return line.Match(s.text)
}
