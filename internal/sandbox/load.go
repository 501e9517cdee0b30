package sandbox

import (
	"context"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// requestTimeout bounds one request of the load generator; a request that
// hangs longer has failed.
const requestTimeout = 10 * time.Second

// load sends requests at a rate, whatever the answers do: a slow or hanging
// answer delays no other request. It never sends one twice, and writes no
// metric; what it saw is in its tally.
type load struct {
	url       string
	paths     []string
	rand      *rand.Rand // of pace alone
	transport *http.Transport
	client    *http.Client
	slots     chan struct{}
	wake      chan struct{}
	rate      atomic.Uint64 // bits of a float64
	tally     *tally

	// hard ends requests that are on their way; soft ends the sending only.
	hard, soft context.Context
	cut, stop  context.CancelFunc
	wg         sync.WaitGroup
}

func newLoad(cfg Config) *load {
	l := &load{
		transport: &http.Transport{
			DialContext:         (&net.Dialer{Timeout: dialTimeout}).DialContext,
			MaxIdleConnsPerHost: 1024,
			IdleConnTimeout:     idleTimeout,
		},
		// Each slot is free again after requestTimeout at the latest, so at the
		// configured rate they cannot run out.
		slots: make(chan struct{}, int(math.Max(cfg.RPS, 100)*1.2*requestTimeout.Seconds())),
		wake:  make(chan struct{}, 1),
		tally: newTally(),
		paths: cfg.Paths,
		rand:  rand.New(rand.NewPCG(cfg.Seed, 1)),
	}
	l.client = &http.Client{
		Transport:     once{l.transport},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	l.hard, l.cut = context.WithCancel(context.Background())
	l.soft, l.stop = context.WithCancel(l.hard)
	return l
}

// start begins to send to the base URL.
func (l *load) start(url string, rps float64) {
	l.url = url
	l.setRate(rps)
	l.wg.Go(l.pace)
}

// setRate changes the rate at once; 0 stops the load.
func (l *load) setRate(rps float64) {
	l.rate.Store(math.Float64bits(rps))
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// finish stops the sending and waits for the answers until ctx ends; then it
// cuts what is left.
func (l *load) finish(ctx context.Context) {
	l.stop()
	defer context.AfterFunc(ctx, l.cut)()
	l.wg.Wait()
	l.cut()
	l.transport.CloseIdleConnections()
}

// pace sends each request when it is due.
func (l *load) pace() {
	next := time.Now()
	for l.soft.Err() == nil {
		rate := math.Float64frombits(l.rate.Load())
		if rate <= 0 {
			if !l.waitWake(0) {
				return
			}
			next = time.Now()
			continue
		}
		if wait := time.Until(next); wait > 0 {
			l.waitWake(wait)
			continue
		}
		if time.Since(next) > time.Second {
			next = time.Now() // the machine stood still: those were never due
		}
		l.fire()
		next = next.Add(time.Duration(float64(time.Second) / rate))
	}
}

// waitWake waits for a new rate, or for d if that is above zero. It reports
// false when the sending has ended.
func (l *load) waitWake(d time.Duration) bool {
	var after <-chan time.Time
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		after = timer.C
	}
	select {
	case <-l.wake:
	case <-after:
	case <-l.soft.Done():
		return false
	}
	return true
}

func (l *load) fire() {
	select {
	case l.slots <- struct{}{}:
	default:
		l.tally.unsent()
		return
	}
	at, path := time.Now(), l.paths[l.rand.IntN(len(l.paths))]
	l.tally.sent(at)
	l.wg.Go(func() {
		defer func() { <-l.slots }()
		l.tally.answered(at, l.send(path))
	})
}

// send does one request to its end and says what came of it.
func (l *load) send(path string) outcome {
	ctx, cancel := context.WithTimeout(l.hard, requestTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, l.url+path, nil)
	if err != nil {
		return outcome{err: err}
	}
	resp, err := l.client.Do(req)
	if err != nil {
		return outcome{err: err}
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return outcome{
		err:      err,
		code:     resp.StatusCode,
		injected: resp.Header.Get(headerFault) == "injected",
		version:  resp.Header.Get("X-Version"),
		track:    resp.Header.Get(headerTrack),
		pod:      resp.Header.Get(headerPod),
	}
}

// outcome is what the client saw of one request.
type outcome struct {
	err      error
	code     int
	injected bool
	version  string
	track    string
	pod      string
}

func (o outcome) failed() bool { return o.err != nil || o.code >= 500 }

func (o outcome) why() string {
	switch {
	case errors.Is(o.err, context.DeadlineExceeded):
		return "no answer in " + requestTimeout.String()
	case o.err != nil:
		return o.err.Error()
	default:
		return http.StatusText(o.code)
	}
}
