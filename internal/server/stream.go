package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humaecho"
	"github.com/labstack/echo/v4"

	"github.com/shifter-dev/shifter/internal/api"
	"github.com/shifter-dev/shifter/internal/release"
)

// update is one message on a stream; last says that none follows.
type update struct {
	msg  []byte
	last bool
}

// message makes one server-sent event. A zero id is left out.
func message(event string, id uint64, data []byte) []byte {
	var b bytes.Buffer
	if id > 0 {
		fmt.Fprintf(&b, "id: %d\n", id)
	}
	fmt.Fprintf(&b, "event: %s\n", event)
	for line := range bytes.SplitSeq(bytes.TrimRight(data, "\n"), []byte("\n")) {
		b.WriteString("data: ")
		b.Write(bytes.TrimRight(line, "\r"))
		b.WriteByte('\n')
	}
	b.WriteByte('\n')
	return b.Bytes()
}

// stream sends first, and then what next makes of each change: at most one in a
// gap, the latest of what came meanwhile. It ends after an update that is the
// last, when the client goes or is too slow for the write deadline, and when the
// server stops; browsers come back by themselves after that.
func (s *Server) stream(c echo.Context, first update, changes <-chan release.View, next func(release.View) (update, error)) error {
	w := &streamWriter{w: c.Response(), rc: http.NewResponseController(c.Response()), limit: s.pace.write}
	defer w.done()
	h := c.Response().Header()
	h.Set("Content-Type", streamType)
	h.Set("X-Accel-Buffering", "no")
	c.Response().WriteHeader(http.StatusOK)
	if !w.write(fmt.Appendf(nil, "retry: %d\n\n%s", streamRetry, first.msg)) || first.last {
		return nil
	}
	beat := time.NewTicker(s.pace.beat)
	defer beat.Stop()
	gap := time.NewTimer(s.pace.gap)
	defer gap.Stop()
	var open <-chan release.View // nil until the gap is over
	for {
		select {
		case <-c.Request().Context().Done():
			return nil
		case <-s.stopping:
			return nil
		case <-gap.C:
			open = changes
		case <-beat.C:
			if !w.write([]byte(": still here\n\n")) {
				return nil
			}
		case v, ok := <-open:
			if !ok {
				return nil
			}
			u, err := next(v)
			if err != nil {
				return err // it is too late to answer it; the client comes back
			}
			if len(u.msg) == 0 {
				continue
			}
			if !w.write(u.msg) || u.last {
				return nil
			}
			open = nil
			gap.Reset(s.pace.gap)
			beat.Reset(s.pace.beat)
		}
	}
}

// streamWriter writes with a deadline for each write.
type streamWriter struct {
	w     http.ResponseWriter
	rc    *http.ResponseController
	limit time.Duration
}

func (w *streamWriter) write(b []byte) bool {
	_ = w.rc.SetWriteDeadline(time.Now().Add(w.limit)) // a recorder in a test has none
	if _, err := w.w.Write(b); err != nil {
		return false
	}
	return w.rc.Flush() == nil
}

// done leaves time for the last bytes that net/http writes itself.
func (w *streamWriter) done() { _ = w.rc.SetWriteDeadline(time.Now().Add(w.limit)) }

type eventsInput struct {
	Namespace   string `path:"namespace" doc:"Namespace of the release"`
	Name        string `path:"name" doc:"Name of the release"`
	LastEventID string `header:"Last-Event-ID" doc:"Sent by browsers that come back; the present state is sent first in any case"`
}

func (s *Server) events(ctx context.Context, in *eventsInput) (*huma.StreamResponse, error) {
	k, err := keyOf(in.Namespace, in.Name)
	if err != nil {
		return nil, err
	}
	v, err := s.view(ctx, k)
	if err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(hc huma.Context) { //nolint:contextcheck // a stream lives as long as its request, whose context is in hc
		c := humaecho.Unwrap(hc)
		if err := s.streamRelease(c, v, s.eventOf); err != nil {
			s.cfg.Log.Warn("a stream broke off", slog.String("release", k.String()), slog.Any("error", err))
		}
	}}, nil
}

// eventOf is one view as an event of the API.
func (s *Server) eventOf(v release.View) ([]byte, error) {
	data, err := json.Marshal(api.FromView(v, s.cfg.URL))
	if err != nil {
		return nil, fmt.Errorf("write an event: %w", err)
	}
	return message("release", v.Seq, data), nil
}

// streamRelease streams one release until it has ended.
func (s *Server) streamRelease(c echo.Context, v release.View, event func(release.View) ([]byte, error)) error {
	ctx, cancel := context.WithCancel(c.Request().Context())
	defer cancel()
	render := func(v release.View) (update, error) {
		msg, err := event(v)
		if err != nil || !v.Release.Phase.Terminal() {
			return update{msg: msg}, err
		}
		end, err := json.Marshal(map[string]string{"phase": string(v.Release.Phase)})
		return update{msg: append(msg, message("end", 0, end)...), last: true}, err
	}
	first, err := render(v)
	if err != nil {
		return err
	}
	sent := v
	return s.stream(c, first, s.follow(ctx, v.Release.Key), func(v release.View) (update, error) {
		if v.Seq == sent.Seq && v.Release.Revision == sent.Release.Revision {
			return update{}, nil
		}
		sent = v
		return render(v)
	})
}
