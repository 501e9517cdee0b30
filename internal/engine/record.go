package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/shifter-dev/shifter/internal/release"
)

// This file is the worker's way to its record: load, reload after a conflict,
// save.

func (w *worker) load(ctx context.Context) (release.Record, error) {
	ctx, cancel := w.bounded(ctx)
	defer cancel()
	return w.engine.cfg.Journal.Load(ctx, w.key)
}

// reload looks what became of the record. Where only commands came in, what this
// worker knows stays; where the release itself was written by somebody else, it
// is taken as it is.
func (w *worker) reload(ctx context.Context) error {
	rec, err := w.load(ctx)
	if err != nil {
		w.stale = true
		return fmt.Errorf("load the record again: %w", err)
	}
	switch {
	case rec.Release.Revision == w.saved.Revision && rec.Release.UID == w.saved.UID:
	case w.tried != nil && same(*w.tried, rec.Release):
		w.rec.Release, w.saved = *w.tried, *w.tried
	default:
		w.engine.cfg.Logger.Warn("the record was written by another", "release", w.key,
			"revision", rec.Release.Revision, "known", w.saved.Revision)
		w.adopt(rec)
		return nil
	}
	w.rec.Inbox, w.rec.Version = rec.Inbox, rec.Version
	w.tried, w.stale = nil, false
	return nil
}

// same reports whether a loaded record is what was tried to save. A save whose
// answer was lost is found again this way.
func same(tried, loaded release.Release) bool {
	var again release.Release
	x, err := json.Marshal(tried)
	if err != nil || json.Unmarshal(x, &again) != nil {
		return false
	}
	x, errX := json.Marshal(again)
	y, errY := json.Marshal(loaded)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// save writes the release and makes it the worker's own. A save without an
// answer may have been made: the next turn looks.
func (w *worker) save(ctx context.Context, next release.Release) error {
	ctx, cancel := w.bounded(ctx)
	defer cancel()
	v, err := w.engine.cfg.Journal.Save(ctx, next, w.rec.Version)
	next.Revision = w.saved.Revision + 1
	if err != nil {
		if !errors.Is(err, release.ErrConflict) {
			w.tried = &next
		}
		w.stale = true
		return fmt.Errorf("save the release: %w", err)
	}
	w.rec.Version, w.rec.Inbox = v, waiting(w.rec.Inbox, next.Consumed)
	w.rec.Release, w.saved, w.tried = next, next, nil
	return nil
}

// waiting returns the commands that are not consumed yet.
func waiting(inbox []release.Command, consumed uint64) []release.Command {
	var out []release.Command
	for _, c := range inbox {
		if c.Seq > consumed {
			out = append(out, c)
		}
	}
	return out
}
