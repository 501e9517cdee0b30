package release

import (
	"testing"

	"pgregory.net/rapid"
)

func TestNeed(t *testing.T) {
	for _, c := range []struct {
		full     int
		share    float64
		headroom float64
		least    int
		want     int
	}{
		{4, 100, 1, 1, 4},
		{4, 90, 1, 1, 4},
		{4, 75, 1, 1, 3},
		{4, 50, 1, 1, 2},
		{4, 25, 1, 1, 1},
		{4, 0, 1, 2, 0},
		{10, 10, 1.2, 2, 2},
		{10, 50, 1.2, 2, 6},
		{10, 90, 1.2, 2, 10},
		{1, 10, 1.2, 2, 1},
		{100, 0.5, 1.2, 2, 2},
	} {
		if got := Need(c.full, c.share, Size{c.headroom, c.least}); got != c.want {
			t.Errorf("Need(%d, %g, %g, %d) = %d, want %d", c.full, c.share, c.headroom, c.least, got, c.want)
		}
	}
}

func TestCapacityAndNeedAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		full := rapid.IntRange(1, 200).Draw(t, "full")
		s := Size{Headroom: rapid.Float64Range(1, 3).Draw(t, "headroom"), MinReplicas: rapid.IntRange(1, 5).Draw(t, "least")}
		ready := rapid.IntRange(0, full).Draw(t, "ready")
		room := Capacity(full, ready, s)
		if n := Need(full, room, Size{s.Headroom, 1}); n > ready {
			t.Fatalf("capacity says %g for %d of %d pods, which needs %d", room, ready, full, n)
		}
		if a, b := rapid.Float64Range(0, 100).Draw(t, "a"), rapid.Float64Range(0, 100).Draw(t, "b"); a <= b && Need(full, a, s) > Need(full, b, s) {
			t.Fatalf("a greater share needs fewer pods: %g %g", a, b)
		}
	})
}

func TestPairKeepsItsSumAtEveryShare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Pair{rapid.Int32Range(0, 1_000_000).Draw(t, "p"), rapid.Int32Range(0, 1_000_000).Draw(t, "c")}
		share := rapid.Float64Range(0, 100).Draw(t, "share")
		for _, tr := range []Track{Primary, Canary} {
			q := p.At(tr, share)
			if q.Sum() != p.Sum() || q.Primary < 0 || q.Canary < 0 {
				t.Fatalf("%v at %g of %s is %v", p, share, tr, q)
			}
			if q != p.At(tr, share).At(tr, share) {
				t.Fatalf("%v at %g is not stable", p, share)
			}
		}
	})
}
