package lease_test

import (
	"errors"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/shifter-dev/shifter/internal/kubetest"
)

var errLate = errors.New("no answer")

// weather is a network that fails a process in a way that changes.
func weather(r *rand.Rand) (before, after func(*http.Request) error) {
	slow := time.Duration(r.Int64N(int64(6 * time.Second)))
	delay := func(req *http.Request) error {
		select {
		case <-req.Context().Done():
			return req.Context().Err()
		case <-time.After(slow):
			return nil
		}
	}
	switch r.IntN(7) {
	case 0:
		return cut, nil
	case 1:
		return hang, nil
	case 2:
		return nil, cut
	case 3:
		return delay, nil
	case 4:
		return nil, delay
	case 5: // it arrives, later than its sender waited
		return func(*http.Request) error { time.Sleep(slow); return nil }, func(*http.Request) error { return errLate }
	}
	return nil, nil
}

// TestNeverTwoWork lets five processes live through all weathers, end and start
// again. The work of each takes as long to stop as an engine's may.
func TestNeverTwoWork(t *testing.T) {
	for seed := range uint64(3) {
		inTime(t, func(t *testing.T, s *kubetest.Server) {
			r := rand.New(rand.NewPCG(seed, 7))
			var mu sync.Mutex
			working, terms := 0, 0
			overlap := func(delta int) {
				mu.Lock()
				defer mu.Unlock()
				working += delta
				if delta > 0 {
					terms++
				}
				if working > 1 {
					t.Errorf("seed %d: %d work at the same time", seed, working)
				}
			}
			names := 0
			start := func() *replica {
				names++
				return standLagging(t, s, string(rune('a'+names%26))+time.Now().Format("150405.000"), 4*time.Second, overlap)
			}
			all := make([]*replica, 5)
			for i := range all {
				all[i] = start()
			}
			for range 250 {
				i := r.IntN(len(all))
				switch x := all[i]; {
				case !x.at(&x.returned).IsZero():
					all[i] = start()
				case r.IntN(10) == 0:
					x.stop()
				default:
					x.way.hook(weather(r))
				}
				time.Sleep(time.Duration(r.Int64N(int64(15 * time.Second))))
			}
			for _, x := range all {
				x.way.hook(nil, nil)
			}
			until(t, "one leads in the end", 2*time.Minute, func() bool {
				for _, x := range all {
					if x.leads() {
						return true
					}
				}
				return false
			})
			for _, x := range all {
				x.stop()
			}
			for _, x := range all {
				<-x.terminated
			}
			mu.Lock()
			defer mu.Unlock()
			t.Logf("seed %d: %d terms", seed, terms)
			if terms < 10 {
				t.Errorf("seed %d: %d terms tell nothing", seed, terms)
			}
		})
	}
}
