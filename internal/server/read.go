package server

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/shifter-dev/shifter/internal/api"
	"github.com/shifter-dev/shifter/internal/release"
)

// view returns a release as this copy runs it, else its record.
func (s *Server) view(ctx context.Context, k release.Key) (release.View, error) {
	if v, ok := s.views.Get(k); ok {
		return v, nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.pace.call)
	defer cancel()
	rec, err := s.releases.Load(ctx, k)
	if err != nil {
		return release.View{}, err
	}
	return api.RecordView(rec.Release), nil
}

// all returns every release, those that wait for a person first, then those
// that run, then those that have ended, the newest first.
func (s *Server) all(ctx context.Context, keep func(release.View) bool) ([]release.View, error) {
	ctx, cancel := context.WithTimeout(ctx, s.pace.call)
	defer cancel()
	keys, err := s.releases.List(ctx)
	if err != nil {
		return nil, err
	}
	var out []release.View
	seen := map[release.Key]bool{}
	for _, v := range s.views.List() {
		seen[v.Release.Key] = true
		if keep(v) {
			out = append(out, v)
		}
	}
	for _, k := range keys {
		if seen[k] {
			continue
		}
		v, err := s.view(ctx, k)
		switch {
		case errors.Is(err, release.ErrNotFound):
			continue // gone in between
		case errors.Is(err, release.ErrUnavailable), ctx.Err() != nil:
			return nil, errors.Join(err, ctx.Err())
		case err != nil:
			// One record that cannot be read does not hide the others.
			s.cfg.Log.Warn("a record is left out of the list", slog.String("release", k.String()), slog.Any("error", err))
			continue
		}
		if keep(v) {
			out = append(out, v)
		}
	}
	slices.SortStableFunc(out, func(a, b release.View) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), b.Release.Created.Compare(a.Release.Created),
			cmp.Compare(a.Release.Key.String(), b.Release.Key.String()))
	})
	return out, nil
}

func rank(v release.View) int {
	switch r := v.Release; {
	case r.Phase == release.Held:
		return 0
	case !r.Phase.Terminal():
		return 1
	case r.NeedsHuman:
		return 2
	}
	return 3
}

// follow sends a release whenever it may have changed, until ctx ends: its
// views, and its record from time to time while there is no view. The zero key
// follows all views. Who is slow gets the latest.
func (s *Server) follow(ctx context.Context, k release.Key) <-chan release.View {
	out := make(chan release.View)
	go func() {
		defer close(out)
		views := s.views.Watch(ctx, k)
		look := time.NewTicker(s.pace.poll)
		defer look.Stop()
		if k == (release.Key{}) {
			look.Stop()
		}
		var (
			v    release.View
			send chan<- release.View // nil while there is nothing to send
			ok   bool
		)
		for {
			select {
			case <-ctx.Done():
				return
			case v, ok = <-views:
				if !ok {
					return
				}
				look.Stop()
				send = out
			case <-look.C:
				rec, err := s.view(ctx, k)
				if err == nil {
					v, send = rec, out
				}
			case send <- v:
				send = nil
			}
		}
	}()
	return out
}

// await returns a release as soon as done says so, and as it is when the wait is
// over or the server stops.
func (s *Server) await(ctx context.Context, k release.Key, wait time.Duration, done func(release.View) bool) (release.View, error) {
	v, err := s.view(ctx, k)
	if err != nil || wait <= 0 || done(v) {
		return v, err
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	changes := s.follow(ctx, k)
	for !done(v) {
		select {
		case <-s.stopping:
			return v, nil
		case next, ok := <-changes:
			if !ok {
				return v, nil
			}
			v = next
		}
	}
	return v, nil
}

// waitFor reads ?wait=.
func waitFor(in string) (time.Duration, error) {
	if in == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(in)
	if err != nil || d < 0 {
		return 0, invalidParameter("wait", "durationForm", "wait is not a duration", `write a Go duration up to 25s, such as "wait=25s"`)
	}
	return min(d, maxWait), nil
}
