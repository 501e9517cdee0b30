package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/shifter-dev/shifter/internal/release"
)

// quarantine ends a release that met a fault of shifter's own: failed, with the
// traffic kept where it is. It starts from the record
// as it lies in the journal, since what is in memory may be the fault. It tries
// until it is saved or cannot be.
func (w *worker) quarantine(ctx context.Context, cause string) {
	w.engine.cfg.Views.publish(recordView(quarantined(w.saved, cause, w)))
	for failures := 1; ctx.Err() == nil; failures++ {
		err := w.saveQuarantined(ctx, cause)
		switch {
		case err == nil:
			w.publishRecord()
			return
		case errors.Is(err, release.ErrRefused), errors.Is(err, release.ErrNotFound), release.IsUnreadable(err):
			w.engine.cfg.Logger.Error("the quarantine cannot be saved", "release", w.key, "err", err)
			return
		}
		w.engine.cfg.Logger.Warn("the quarantine is not saved yet", "release", w.key, "err", err)
		sleep(ctx, backoff(failures))
	}
}

func (w *worker) saveQuarantined(ctx context.Context, cause string) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	rec, err := w.load(ctx)
	if err != nil {
		return err
	}
	w.rec, w.saved, w.tried, w.stale = rec, rec.Release, nil, false
	if rec.Release.Phase.Terminal() {
		return nil
	}
	return w.save(ctx, quarantined(rec.Release, cause, w))
}

// quarantined is the release after the fault. Nothing is decided any more, so
// what a person must look at is said.
func quarantined(r release.Release, cause string, w *worker) release.Release {
	now := w.now()
	r.Phase, r.Reason, r.Since, r.Ended = release.Failed, release.ReasonInternal, now, now
	r.Message = fmt.Sprintf("Shifter met a fault of its own and let go: %s. The traffic is where it was.", cause)
	r.NeedsHuman, r.Hold, r.Intent = true, nil, nil
	r.Unverified = append(r.Unverified[:len(r.Unverified):len(r.Unverified)],
		"weights, replicas and templates are as the last effect left them",
		"the in-progress label may still be on the routes")
	r.Seq++
	kept := r.History[max(0, len(r.History)-release.HistoryMax/2):]
	r.History = append(kept[:len(kept):len(kept)], release.Event{Seq: r.Seq, At: now, Phase: r.Phase, Reason: r.Reason, Text: r.Message})
	return r
}
