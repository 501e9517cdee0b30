package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
)

// The bounds of one query.
const (
	queryTimeout    = 10 * time.Second
	queryMaxSamples = 5_000_000
)

// promAPI answers GET and POST /api/v1/query as Prometheus does.
type promAPI struct {
	store  *store
	engine *promql.Engine
	lag    time.Duration
	faults Telemetry
	began  time.Time // outages are counted from here
}

func newPromAPI(cfg Config, log *slog.Logger, s *store) *promAPI {
	return &promAPI{
		store: s, lag: cfg.ReadLag, faults: cfg.Faults.Telemetry,
		engine: promql.NewEngine(promql.EngineOpts{
			Logger:               log,
			MaxSamples:           queryMaxSamples,
			Timeout:              queryTimeout,
			EnableAtModifier:     true,
			EnableNegativeOffset: true,
		}),
	}
}

func (a *promAPI) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/query", a.query)
	mux.HandleFunc("POST /api/v1/query", a.query)
	return mux
}

// outage says what is wrong with the API at a moment: nothing, or since when it
// is down or stale.
func (a *promAPI) outage(now time.Time) (down, stale bool, since time.Time) {
	f := a.faults
	if f.Outage == 0 {
		return false, false, time.Time{}
	}
	period, into := now.Sub(a.began)/f.Every, now.Sub(a.began)%f.Every
	if into < f.Every-f.Outage {
		return false, false, time.Time{}
	}
	since = now.Add(f.Every - f.Outage - into)
	return period%2 == 0, period%2 == 1, since
}

// visible is what a query can see now.
func (a *promAPI) visible(now time.Time) storage.Queryable {
	newest := now.Add(-a.lag)
	if _, stale, since := a.outage(now); stale && since.Before(newest) {
		newest = since
	}
	return a.store.until(newest)
}

func (a *promAPI) query(w http.ResponseWriter, r *http.Request) {
	now := time.Now()
	if down, _, _ := a.outage(now); down {
		http.Error(w, "no healthy upstream", http.StatusServiceUnavailable)
		return
	}
	at, timeout, err := queryParams(r, now)
	if err != nil {
		writeEnvelope(w, http.StatusBadRequest, badData(err))
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	q, err := a.engine.NewInstantQuery(ctx, a.visible(now), nil, r.FormValue("query"), at)
	if err != nil {
		writeEnvelope(w, http.StatusBadRequest, badData(fmt.Errorf("invalid parameter %q: %w", "query", err)))
		return
	}
	defer q.Close()
	res := q.Exec(ctx)
	if res.Err != nil {
		code, e := queryFailed(res.Err)
		writeEnvelope(w, code, e)
		return
	}
	e := envelope{Status: "success", Data: &queryData{ResultType: string(res.Value.Type()), Result: notNull(res.Value)}}
	e.Warnings, e.Infos = res.Warnings.AsStrings(r.FormValue("query"), 10, 10)
	writeEnvelope(w, http.StatusOK, e)
}

// envelope is what every answer of the API looks like.
type envelope struct {
	Status    string     `json:"status"`
	Data      *queryData `json:"data,omitempty"`
	ErrorType string     `json:"errorType,omitempty"`
	Error     string     `json:"error,omitempty"`
	Warnings  []string   `json:"warnings,omitempty"`
	Infos     []string   `json:"infos,omitempty"`
}

type queryData struct {
	ResultType string `json:"resultType"`
	Result     any    `json:"result"`
}

// notNull keeps an empty result from being written as null.
func notNull(v any) any {
	switch v := v.(type) {
	case promql.Vector:
		if v == nil {
			return promql.Vector{}
		}
	case promql.Matrix:
		if v == nil {
			return promql.Matrix{}
		}
	}
	return v
}

func badData(err error) envelope {
	return envelope{Status: "error", ErrorType: "bad_data", Error: err.Error()}
}

// queryFailed maps an error of the engine as Prometheus does.
func queryFailed(err error) (int, envelope) {
	code, kind := http.StatusUnprocessableEntity, "execution"
	switch {
	case as[promql.ErrQueryTimeout](err):
		code, kind = http.StatusServiceUnavailable, "timeout"
	case as[promql.ErrQueryCanceled](err):
		code, kind = statusClientGone, "canceled"
	case as[promql.ErrStorage](err):
		code, kind = http.StatusInternalServerError, "internal"
	}
	return code, envelope{Status: "error", ErrorType: kind, Error: err.Error()}
}

func as[T error](err error) bool {
	var t T
	return errors.As(err, &t)
}

func writeEnvelope(w http.ResponseWriter, code int, e envelope) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(e) // an error here means that the client has gone
}

// queryParams reads when to evaluate and how long that may take.
func queryParams(r *http.Request, now time.Time) (at time.Time, timeout time.Duration, err error) {
	at, timeout = now, queryTimeout
	if s := r.FormValue("time"); s != "" {
		if at, err = parseTime(s); err != nil {
			return at, 0, fmt.Errorf("invalid parameter %q: %w", "time", err)
		}
	}
	if s := r.FormValue("timeout"); s != "" {
		d, err := parseDuration(s)
		if err != nil {
			return at, 0, fmt.Errorf("invalid parameter %q: %w", "timeout", err)
		}
		timeout = min(d, queryTimeout)
	}
	return at, timeout, nil
}

// parseTime accepts seconds since 1970, or RFC 3339.
func parseTime(s string) (time.Time, error) {
	if f, err := strconv.ParseFloat(s, 64); err == nil && math.Abs(f) < 1e12 {
		sec, frac := math.Modf(f)
		return time.Unix(int64(sec), int64(math.Round(frac*1000))*int64(time.Millisecond)), nil
	}
	if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
		return t, nil
	}
	return time.Time{}, fmt.Errorf("cannot parse %q to a valid timestamp", s)
}

// parseDuration accepts seconds, or 1m30s.
func parseDuration(s string) (time.Duration, error) {
	if f, err := strconv.ParseFloat(s, 64); err == nil && f > 0 && f < 1e6 {
		return time.Duration(f * float64(time.Second)), nil
	}
	d, err := model.ParseDuration(s)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("cannot parse %q to a valid duration", s)
	}
	return time.Duration(d), nil
}
