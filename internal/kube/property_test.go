package kube_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/shifter-dev/shifter/internal/kube"
	"github.com/shifter-dev/shifter/internal/kubetest"
)

// The bounds of the property: how long a watch may be silent, twice that at its
// beginning, and what the machine may be slow by.
const (
	silence = 100 * time.Millisecond
	slow    = 2*time.Second + silence
)

// past is what happened to each object: values that rise, or gone (0).
type past struct {
	mu   sync.Mutex
	last int
	of   map[string][]moment
}

type moment struct {
	n    int // 0 when it was deleted
	ours bool
	done time.Time // zero while it is under way
}

// write makes one moment of an object, by what do does.
func (p *past) write(name string, gone, ours bool, do func(n int)) {
	p.mu.Lock()
	n := 0
	if !gone {
		p.last++
		n = p.last
	}
	at := len(p.of[name])
	p.of[name] = append(p.of[name], moment{n: n})
	p.mu.Unlock()
	do(n)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.of[name][at] = moment{n, ours, time.Now()}
}

// oldest is for each object the oldest moment that may be shown now.
func (p *past) oldest() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := map[string]int{}
	for name, all := range p.of {
		for i, m := range all {
			if !m.done.IsZero() && (m.ours || time.Since(m.done) > silence+slow) {
				out[name] = i
			}
		}
	}
	return out
}

// newest is the last moment at which an object was as it is shown.
func (p *past) newest(name string, n int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, m := range slices.Backward(p.of[name]) {
		if m.n == n {
			return i
		}
	}
	return -1
}

// judge reads once, and says what is wrong with what is shown.
func (w world) judge(p *past) error {
	oldest := p.oldest() // before the look
	sight, ok := w.Read(w.t.Context(), labelled, w.Patience())
	if !ok {
		return nil
	}
	shown := map[string]int{}
	for _, o := range sight.Objects {
		n, err := strconv.Atoi(kubetest.Text(o.Object, "data", "n"))
		if err != nil {
			return err
		}
		shown[o.GetName()] = n
	}
	for name, least := range oldest {
		if at := p.newest(name, shown[name]); at < least {
			return fmt.Errorf("%s is shown as %d, which is moment %d: it must be %d at least", name, shown[name], at, least)
		}
	}
	return nil
}

// step does one thing to the cluster.
func (w world) step(r *rand.Rand, p *past) {
	name := fmt.Sprint("x", r.IntN(4))
	switch r.IntN(12) {
	case 0:
		w.Cut()
	case 1:
		w.Forget()
		w.Cut()
	case 2:
		w.Hold()
	case 3, 4:
		w.Free()
	case 5:
		w.Bookmark(configMaps, "ConfigMap")
	case 6:
		w.Doubt(labelled)
	case 7:
		if w.Get(configMaps, "demo", name) != nil {
			p.write(name, true, false, func(int) { w.Delete(configMaps, "demo", name) })
		}
	default:
		ours := r.IntN(2) == 0
		p.write(name, false, ours, func(n int) {
			version := w.put(name, n)
			if ours {
				w.Floor(labelled, version)
			}
		})
	}
}

// TestWhatIsShownIsNeverTooOld has others and us write at random, watches end,
// versions forgotten and events kept back, while somebody reads all the time.
func TestWhatIsShownIsNeverTooOld(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("the seed is %d", seed)
	for i := range uint64(40) {
		w := newWorld(t, kube.MirrorsConfig{Silence: silence, Patience: 10 * time.Millisecond})
		p := &past{of: map[string][]moment{}}
		for n := range 4 { // an object that was never there is as one that is gone
			p.write(fmt.Sprint("x", n), true, false, func(int) {})
		}
		p.write("x0", false, false, func(n int) { w.put("x0", n) })
		_, stop := w.follow(labelled)
		done, ended := make(chan struct{}), make(chan error, 1)
		go func() {
			for {
				select {
				case <-done:
					ended <- nil
					return
				default:
				}
				if err := w.judge(p); err != nil {
					ended <- err
					return
				}
			}
		}()
		for r := rand.New(rand.NewPCG(seed, i)); r.IntN(120) > 0; {
			w.step(r, p)
			if r.IntN(4) == 0 {
				if err := w.judge(p); err != nil {
					t.Fatalf("round %d: %v", i, err)
				}
			}
		}
		// Held or not: what there is now is shown in bounded time.
		want := ""
		for _, o := range w.List(configMaps) {
			want += fmt.Sprintf(" %s=%s", kubetest.Text(o, "metadata", "name"), kubetest.Text(o, "data", "n"))
		}
		if want != "" {
			want = want[1:]
		}
		w.shows(labelled, want)
		close(done)
		if err := <-ended; err != nil {
			t.Fatalf("round %d: %v", i, err)
		}
		stop()
	}
}
