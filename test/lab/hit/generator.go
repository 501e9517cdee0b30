package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// generator sends two streams: the paced one and the long one.
type generator struct {
	ctx    context.Context // ends with the program, and cuts what is in flight
	client client
	slots  chan struct{}
	epoch  atomic.Pointer[epoch]

	mu          sync.Mutex
	rate        float64
	n, ms       int
	stopPacer   context.CancelFunc
	stopLongOne context.CancelFunc
}

func newGenerator(ctx context.Context, c client, slots int) *generator {
	g := &generator{ctx: ctx, client: c, slots: make(chan struct{}, slots), stopPacer: func() {}, stopLongOne: func() {}}
	g.reset()
	return g
}

func (g *generator) reset() { g.epoch.Store(newEpoch()) }

// rest stops sending: nobody has looked for too long.
func (g *generator) rest() {
	_ = g.setRate(0)
	_ = g.setLong(0, 0)
}

func (g *generator) setRate(rps float64) error {
	if !(rps >= 0 && rps <= maxRate) { // so that NaN is refused too
		return fmt.Errorf("rps: %v is not from 0 to %d", rps, maxRate)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stopPacer()
	ctx, stop := context.WithCancel(g.ctx)
	g.rate, g.stopPacer = rps, stop
	if rps > 0 {
		go g.pace(ctx, time.Duration(float64(time.Second)/rps))
	}
	return nil
}

// pace sends by the clock and not by the answers. When the machine has not let
// it run for a while it sends what is due at once; what is due for more than
// five seconds is missed.
func (g *generator) pace(ctx context.Context, every time.Duration) {
	const tooLate = 5 * time.Second
	timer := time.NewTimer(0)
	defer timer.Stop()
	for due := time.Now(); ; due = due.Add(every) {
		if late := time.Since(due); late > tooLate {
			n := int64(late / every)
			e := g.epoch.Load()
			e.missed(&e.paced, n)
			due = due.Add(time.Duration(n) * every)
		}
		timer.Reset(time.Until(due))
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		e := g.epoch.Load()
		select {
		case g.slots <- struct{}{}:
			e.sent(&e.paced)
			go func() {
				o := g.client.send(g.ctx, "/", 0)
				<-g.slots
				e.done(&e.paced, o)
			}()
		default:
			e.missed(&e.paced, 1)
		}
	}
}

// setLong keeps n requests of so many milliseconds in flight. They are begun one
// after the other, so that they also end so and not all at once. Fewer, or none,
// cuts nothing: those in flight are waited for and not followed by others.
func (g *generator) setLong(n, ms int) error {
	if n < 0 || n > maxLong || ms < 0 || ms > maxMs {
		return fmt.Errorf("n: from 0 to %d, ms: from 0 to %d", maxLong, maxMs)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stopLongOne()
	ctx, stop := context.WithCancel(g.ctx)
	g.n, g.ms, g.stopLongOne = n, ms, stop
	for i := range n {
		go g.repeat(ctx, ms, time.Duration(i*ms/n)*time.Millisecond)
	}
	return nil
}

func (g *generator) repeat(ctx context.Context, ms int, after time.Duration) {
	length := time.Duration(ms) * time.Millisecond
	select {
	case <-ctx.Done():
	case <-time.After(after):
	}
	for ctx.Err() == nil {
		e := g.epoch.Load()
		e.sent(&e.long)
		o := g.client.send(g.ctx, fmt.Sprintf("/work?ms=%d", ms), length) //nolint:contextcheck // ctx ends the loop, and must not cut a request
		e.done(&e.long, o)
		// Where answers fail at once, this must not become a flood.
		if o.took < length/2 || o.took < 10*time.Millisecond {
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
	}
}

// report is the answer to GET /report.
type report struct {
	Since  time.Time `json:"since"`
	Now    time.Time `json:"now"`
	RPS    float64   `json:"rps"` // as set; see paced for what was sent
	LongN  int       `json:"longN"`
	LongMS int       `json:"longMs"`
	Paced  counts    `json:"paced"`
	Long   counts    `json:"long"`
}

func (g *generator) report() report {
	g.mu.Lock()
	r := report{Now: time.Now(), RPS: g.rate, LongN: g.n, LongMS: g.ms}
	g.mu.Unlock()
	e := g.epoch.Load()
	e.mu.Lock()
	defer e.mu.Unlock()
	r.Since, r.Paced, r.Long = e.since, e.paced.copy(), e.long.copy()
	return r
}
