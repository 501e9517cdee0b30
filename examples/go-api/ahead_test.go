package main

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a listener of connections in memory.
type pipes struct {
	accept chan net.Conn
	closed chan struct{}
}

func (p pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.accept:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p pipes) Close() error   { close(p.closed); return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p pipes) dial() net.Conn {
	here, there := net.Pipe()
	p.accept <- there
	return here
}

// overPipes runs a test with the server's own timeouts in a bubble's time.
func overPipes(t *testing.T, test func(t *testing.T, dial func() net.Conn)) {
	synctest.Test(t, func(t *testing.T) {
		ln := pipes{make(chan net.Conn), make(chan struct{})}
		srv := testApp(config{}).newServer()
		done := make(chan error, 1)
		go func() { done <- srv.Serve(aheadListener{ln, srv.IdleTimeout}) }()
		test(t, ln.dial)
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
}

func TestAConnectionThatWasOpenedAheadWaitsForItsFirstRequest(t *testing.T) {
	for _, idle := range []time.Duration{0, 11 * time.Second, 10 * time.Minute, time.Hour} {
		overPipes(t, func(t *testing.T, dial func() net.Conn) {
			c := dial()
			defer c.Close()
			for range 2 { // the second time it is not the first
				time.Sleep(idle)
				if _, err := io.WriteString(c, "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
					t.Fatalf("after %s: %v", idle, err)
				}
				res, err := http.ReadResponse(bufio.NewReader(c), nil)
				if err != nil || res.StatusCode != http.StatusOK {
					t.Fatalf("after %s: %v %v", idle, res, err)
				}
				_, _ = io.Copy(io.Discard, res.Body)
				res.Body.Close()
			}
		})
	}
}

func TestAHeaderThatHasBegunMustEndInTime(t *testing.T) {
	overPipes(t, func(t *testing.T, dial func() net.Conn) {
		c := dial()
		defer c.Close()
		time.Sleep(time.Minute)
		if _, err := io.WriteString(c, "GET /livez HTTP/1.1\r\nHost:"); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		_, err := io.Copy(io.Discard, c)
		if took := time.Since(began); took < 9*time.Second || took > 11*time.Second {
			t.Errorf("closed after %s: %v", took, err)
		}
	})
}
