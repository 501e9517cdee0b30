package engine

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/shifter-dev/shifter/internal/release"
)

func TestARecordThatGrowsTooLargeGivesUpDetailsAndGoesOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		k := w.admit(t, "good")
		rec, err := w.Load(t.Context(), k)
		if err != nil {
			t.Fatal(err)
		}
		// A story that fills the record nearly.
		r := rec.Release
		for range 45 {
			r.Seq++
			r.History = append(r.History, release.Event{Seq: r.Seq, Text: strings.Repeat("x", 1000)})
		}
		if _, err := w.Save(t.Context(), r, rec.Version); err != nil {
			t.Fatal(err)
		}
		stop := start(t, w.engine(t))
		r = w.finish(t, k)
		stop()
		refused := len(w.entries(k, func(e entry) bool { return e.port == "Save" && errors.Is(e.err, release.ErrRefused) }))
		if refused == 0 {
			t.Error("the record never was too large: nothing was tried")
		}
		if r.Phase != release.Succeeded || len(r.Steps) != 4 {
			t.Errorf("ended %s (%s) after %d steps: %s", r.Phase, r.Reason, len(r.Steps), r.Message)
		}
		w.checkEffects(t, k)
	})
}
