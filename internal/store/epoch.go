package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/shifter-dev/shifter/internal/release"
)

const (
	epochName = "shifter-epoch"
	epochData = "epoch"
)

// following is the epoch after the last.
func following(last uint64) (uint64, error) {
	if last == math.MaxUint64 {
		return 0, fmt.Errorf("there is no epoch above %d: %w", last, release.ErrRefused)
	}
	return last + 1, nil
}

// raising is the first epoch above another one, for the writer whose own is still
// the last.
func raising(own, above uint64) func(last uint64) (uint64, error) {
	return func(last uint64) (uint64, error) {
		switch {
		case last != own:
			return 0, fmt.Errorf("the last one is %d, not %d: %w", last, own, release.ErrFenced)
		case above < own:
			return own, nil
		}
		return following(above)
	}
}

// NextEpoch gives a number above every one that it gave before, in any process.
// After an ErrUnavailable a number may have been passed over. If somebody deletes
// its ConfigMap it goes on above the epochs in the records; what is on the routes
// of releases without a record may be above that, and RaiseEpoch gets over it.
func (s *ConfigMaps) NextEpoch(ctx context.Context) (uint64, error) {
	return s.moveEpoch(ctx, following)
}

// RaiseEpoch gives an epoch above another one, if own is still the last that was
// given: else another writer has taken over, and it is release.ErrFenced. Where
// own is above it already, own is returned and nothing is written. After an
// ErrUnavailable the epoch may have been raised, and then own is not the last any
// more: that is ErrFenced from then on, and the way out is NextEpoch.
func (s *ConfigMaps) RaiseEpoch(ctx context.Context, own, above uint64) (uint64, error) {
	return s.moveEpoch(ctx, raising(own, above))
}

func (s *ConfigMaps) moveEpoch(ctx context.Context, move func(last uint64) (uint64, error)) (uint64, error) {
	for try := 0; ; try++ {
		next, err := s.tryEpoch(ctx, move)
		if errors.Is(err, release.ErrConflict) || errors.Is(err, release.ErrNotFound) {
			if err = pause(ctx, try); err == nil {
				continue
			}
		}
		if err != nil {
			return 0, fmt.Errorf("raise the epoch: %w", err)
		}
		return next, nil
	}
}

// tryEpoch moves the epoch once, over the version that it read.
func (s *ConfigMaps) tryEpoch(ctx context.Context, move func(last uint64) (uint64, error)) (uint64, error) {
	o, err := s.calls.get(ctx, epochName)
	var last uint64
	switch {
	case err == nil:
		if last, err = s.epochIn(o); err != nil {
			return 0, err
		}
	case !errors.Is(err, release.ErrNotFound):
		return 0, err
	default:
		if last, err = s.epochOfRecords(ctx); err != nil {
			return 0, err
		}
	}
	next, err := move(last)
	if err != nil || next == last {
		return next, err
	}
	text := strconv.FormatUint(next, 10)
	if o == nil {
		o = newConfigMap(s.calls.namespace, epochName, kindEpoch)
		_, err = s.calls.create(ctx, written(o, kindEpoch, epochData, text))
	} else {
		_, err = s.calls.update(ctx, written(o, kindEpoch, epochData, text))
	}
	return next, err
}

// epochOfRecords is the highest epoch that any record was saved with. A release
// whose record has a higher one than its engine waits for a writer that would
// never come.
func (s *ConfigMaps) epochOfRecords(ctx context.Context) (last uint64, err error) {
	err = s.calls.each(ctx, kindLabel+"="+kindRelease, func(o *unstructured.Unstructured) {
		k, ok := s.named(o)
		if !ok {
			return
		}
		d, err := decode(k, []byte(dataOf(o, recordData)))
		if err != nil {
			s.log.Warn("the epoch of a record is not known", "release", k.String(), "err", err)
			return
		}
		last = max(last, d.Release.Epoch)
	})
	return last, err
}

// epochIn reads the epoch. One that cannot be read is never taken as none: its
// writers are on the routes.
func (s *ConfigMaps) epochIn(o *unstructured.Unstructured) (uint64, error) {
	text := dataOf(o, epochData)
	n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("ConfigMap %s/%s holds no epoch under %q: %w; write the highest number there that the annotation shifter.dev/epoch has on any route",
			s.calls.namespace, epochName, epochData, err)
	}
	return n, nil
}
