package sandbox

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// process is one run of the app. The goroutine that waits for it belongs to the
// process: done is closed when it has been reaped.
type process struct {
	cmd   *exec.Cmd
	lines *lineReader
	done  chan struct{}
}

// startProcess runs the app. The caller must see to it that it ends, and
// receive from done.
func startProcess(app string, args, env []string) (*process, error) {
	p := &process{
		cmd:   exec.Command(app, args...),
		lines: &lineReader{listening: make(chan string, 1)},
		done:  make(chan struct{}),
	}
	p.cmd.Env = env // and nothing of ours: GO_API_... would change the app
	p.cmd.Stderr = p.lines
	p.cmd.WaitDelay = time.Second // a grandchild must not keep the pipe open for ever
	p.cmd.SysProcAttr = ownGroup()
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", app, err)
	}
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait() // the exit is in ProcessState, with its reason
	}()
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// term asks the process to end. One that has ended already is no error.
func (p *process) term() { _ = p.cmd.Process.Signal(syscall.SIGTERM) }

// kill ends the process at once and waits for that.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// exit says how it ended; only after done.
func (p *process) exit() string { return p.cmd.ProcessState.String() }

// lineReader reads the app's log: it finds the address in it, and keeps the
// last lines for whoever has to explain a failure.
type lineReader struct {
	listening chan string // gets the address once

	mu    sync.Mutex
	rest  []byte
	last  []string
	found bool
}

const (
	maxLine   = 16 << 10
	lastLines = 5
)

// Write implements io.Writer. It is called by one goroutine of os/exec.
func (l *lineReader) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest = append(l.rest, b...)
	for {
		line, rest, ok := bytes.Cut(l.rest, []byte("\n"))
		if !ok {
			break
		}
		l.rest = rest
		l.line(line)
	}
	if len(l.rest) > maxLine {
		l.rest = l.rest[:0]
	}
	return len(b), nil
}

func (l *lineReader) line(b []byte) {
	l.last = append(l.last, string(b))
	if len(l.last) > lastLines {
		l.last = l.last[1:]
	}
	var entry struct{ Listening string }
	if l.found || json.Unmarshal(b, &entry) != nil || entry.Listening == "" {
		return
	}
	l.found = true
	l.listening <- entry.Listening
}

func (l *lineReader) tail() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.last, " | ")
}
