package server

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shifter-dev/shifter/internal/api/apitest"
	"github.com/shifter-dev/shifter/internal/release"
)

const eventsPath = "/v1/namespaces/shop/releases/checkout-4711/events"

// tape is an answer that can be read while it is written.
type tape struct {
	mu   sync.Mutex
	head http.Header
	text bytes.Buffer
}

func (w *tape) Header() http.Header { return w.head }
func (w *tape) WriteHeader(int)     {}
func (w *tape) Flush()              {}
func (w *tape) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(b)
}

func (w *tape) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// watch opens a stream in a synctest bubble.
func watch(t *testing.T, s *Server, path string) (w *tape, stop func(), ended chan struct{}) {
	ctx, cancel := context.WithCancel(t.Context())
	r := httptest.NewRequestWithContext(ctx, "GET", "http://localhost"+path, http.NoBody)
	w, ended = &tape{head: http.Header{}}, make(chan struct{})
	go func() {
		defer close(ended)
		s.Handler().ServeHTTP(w, r)
	}()
	synctest.Wait()
	return w, cancel, ended
}

func TestAStreamBeginsWithTheStateAndBeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, newWorld().put(apitest.View("gating", apitest.Now())))
		s.pace = defaultPace()
		rec, stop, ended := watch(t, s, eventsPath)
		if ct := rec.Header().Get("Content-Type"); ct != "text/event-stream" || rec.Header().Get("X-Accel-Buffering") != "no" {
			t.Errorf("headers %v", rec.Header())
		}
		checkHeaders(t, rec.Header())
		head := rec.String()
		if !strings.HasPrefix(head, "retry: 2000\n\nid: 110\nevent: release\ndata: {\"name\":\"checkout-4711\"") || !strings.HasSuffix(head, "}\n\n") {
			t.Errorf("begins with %.200q", head)
		}
		time.Sleep(15*time.Second - time.Nanosecond)
		synctest.Wait()
		if got := rec.String(); got != head {
			t.Errorf("something came early: %q", got[len(head):])
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if got := strings.TrimPrefix(rec.String(), head); got != ": still here\n\n" {
			t.Errorf("after 15 s: %q", got)
		}
		stop()
		<-ended
	})
}

func TestAStreamSendsOneUpdateASecondAndEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := apitest.View("gating", apitest.Now())
		w := newWorld().put(v)
		s := newServer(t, w)
		s.pace = defaultPace()
		rec, _, ended := watch(t, s, eventsPath)
		for range 10 {
			v.Seq++
			w.put(v)
			synctest.Wait()
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if got := ids(rec.String()); got != "110 120" {
			t.Errorf("ids %s; want the first and the latest", got)
		}
		v.Seq++
		v.Release.Phase = release.Succeeded
		w.put(v)
		<-ended
		if got := ids(rec.String()); got != "110 120 121" {
			t.Errorf("ids %s", got)
		}
		if !strings.HasSuffix(rec.String(), "\n\nevent: end\ndata: {\"phase\":\"succeeded\"}\n\n") {
			t.Errorf("ends with %q", rec.String())
		}
	})
}

// ids lists the ids of a stream.
func ids(text string) string {
	var out []string
	for line := range strings.Lines(text) {
		if id, ok := strings.CutPrefix(line, "id: "); ok {
			out = append(out, strings.TrimSpace(id))
		}
	}
	return strings.Join(out, " ")
}

func TestAStreamOfAnEndedReleaseEndsAtOnce(t *testing.T) {
	s := newServer(t, newWorld().put(apitest.View("succeeded", apitest.Now())))
	rec := ask(s, "GET", "/v1/namespaces/shop/releases/checkout-4698/events", "")
	if !strings.Contains(rec.Body.String(), "event: release\n") || !strings.Contains(rec.Body.String(), "event: end\n") {
		t.Errorf("%q", rec.Body)
	}
}

func TestAStreamOfARecordWithoutAView(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := apitest.View("gating", apitest.Now())
		w := newWorld().keep(v)
		s := newServer(t, w)
		s.pace = defaultPace()
		rec, _, ended := watch(t, s, eventsPath)
		if got := rec.String(); strings.Contains(got, "id:") || !strings.Contains(got, `"live":false`) {
			t.Errorf("%q", got)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n := strings.Count(rec.String(), "event: release"); n != 1 {
			t.Errorf("%d events, though nothing changed", n)
		}
		v.Release.Phase, v.Release.Revision = release.Failed, 99
		w.keep(v)
		<-ended
		if !strings.Contains(rec.String(), `event: end`) {
			t.Errorf("%q", rec)
		}
	})
}

func TestAStoppingServerEndsStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, newWorld().put(apitest.View("gating", apitest.Now())))
		var all []chan struct{}
		for _, path := range []string{eventsPath, "/namespaces/shop/releases/checkout-4711/live", "/live"} {
			_, _, ended := watch(t, s, path)
			all = append(all, ended)
		}
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		for _, ended := range all {
			<-ended
		}
	})
}

func TestPagesAreStreamedAsFragments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := apitest.View("gating", apitest.Now())
		w := newWorld().put(v)
		s := newServer(t, w)
		one, stopOne, _ := watch(t, s, "/namespaces/shop/releases/checkout-4711/live")
		list, stopList, _ := watch(t, s, "/live")
		v.Seq++
		v.Release.Phase = release.Held
		w.put(v)
		time.Sleep(time.Second)
		synctest.Wait()
		stopOne()
		stopList()
		synctest.Wait()
		for name, text := range map[string]string{"release": one.String(), "list": list.String()} {
			if strings.Count(text, "event: page\n") != 2 || !strings.Contains(text, "data: <div id=\"state\" hidden") ||
				!strings.Contains(text, ">held</span>") || strings.Contains(text, "<html") {
				t.Errorf("%s: %s", name, text)
			}
			for line := range strings.Lines(text) {
				if line != "\n" && !strings.HasPrefix(line, "data: ") && !strings.HasPrefix(line, "event: ") && !strings.HasPrefix(line, "id: ") && !strings.HasPrefix(line, "retry: ") {
					t.Fatalf("%s: not a line of a stream: %q", name, line)
				}
			}
		}
	})
}

// Over a real connection: read by line until the end.
func TestAStreamOverHTTP(t *testing.T) {
	v := apitest.View("gating", apitest.Now())
	w := newWorld().put(v)
	base := serve(t, newServer(t, w))
	res, err := http.Get(base + eventsPath)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 1<<20)
	var events []string
	for lines.Scan() {
		if e, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
			events = append(events, e)
			if len(events) == 1 {
				v.Seq++
				v.Release.Phase = release.RolledBack
				w.put(v)
			}
		}
	}
	if got := strings.Join(events, " "); got != "release release end" || lines.Err() != nil {
		t.Errorf("%s, %v", got, lines.Err())
	}
	// The connection is good for the next request.
	res, err = http.Get(base + "/livez")
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
}

// The read timeout is for reading a request; one that waits may take longer.
func TestAWaitOutlivesTheReadTimeout(t *testing.T) {
	s := newServer(t, newWorld().put(apitest.View("gating", apitest.Now())))
	s.http.ReadTimeout, s.http.ReadHeaderTimeout = 300*time.Millisecond, 300*time.Millisecond
	base := serve(t, s)
	began := time.Now()
	r, _ := http.NewRequest("GET", base+"/v1/namespaces/shop/releases/checkout-4711?wait=500ms", http.NoBody)
	r.Header.Set("If-None-Match", `W/"10"`)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if took := time.Since(began); res.StatusCode != 304 || took < 500*time.Millisecond {
		t.Errorf("%d after %s", res.StatusCode, took)
	}
}

// Who does not read is dropped, and the release does not notice.
func TestASlowClientIsDropped(t *testing.T) {
	v := apitest.View("gating", apitest.Now())
	v.Release.Message = strings.Repeat("x", 256<<10)
	w := newWorld().put(v)
	s := newServer(t, w)
	s.pace.write = 20 * time.Millisecond
	base := serve(t, s)
	conn, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetReadBuffer(4 << 10)
	}
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", eventsPath)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	seen := false
	for deadline := time.After(30 * time.Second); ; {
		select {
		case <-deadline:
			t.Fatal("the slow client is still served")
		case <-tick.C:
		}
		watching := w.watching()
		if seen && !watching {
			return
		}
		seen = seen || watching
		v.Seq++
		w.put(v)
	}
}

func (w *world) watching() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.watchers) > 0
}

func TestAMessageIsOneEvent(t *testing.T) {
	got := string(message("page", 7, []byte("<p>\r\n\nid: 9</p>\n")))
	if want := "id: 7\nevent: page\ndata: <p>\ndata: \ndata: id: 9</p>\n\n"; got != want {
		t.Errorf("%q", got)
	}
}
