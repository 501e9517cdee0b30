package main

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics holds the same facts under two sets of names: the classic ones that
// most dashboards know, and those of the OpenTelemetry HTTP conventions. A real
// service would choose one; a sample has to fit both kinds of tool.
type metrics struct {
	registry *prometheus.Registry

	requests *prometheus.CounterVec   // http_requests_total{code,method}
	duration *prometheus.HistogramVec // http_request_duration_seconds{code,method}

	otelActive   *prometheus.GaugeVec     // http_server_active_requests
	otelDuration *prometheus.HistogramVec // http_server_request_duration_seconds
}

// The buckets that the OpenTelemetry conventions advise.
var otelBuckets = []float64{.005, .01, .025, .05, .075, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10}

func newMetrics(a *app) *metrics {
	m := &metrics{
		// An own registry: nothing gets in that this file does not name.
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "http_requests_total", Help: "Requests answered.",
		}, []string{"code", "method"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "http_request_duration_seconds", Help: "Time to answer a request.",
			Buckets: prometheus.DefBuckets,
		}, []string{"code", "method"}),
		otelActive: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "http_server_active_requests", Help: "Requests being answered (OpenTelemetry name).",
		}, []string{"http_request_method", "url_scheme"}),
		otelDuration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "http_server_request_duration_seconds", Help: "Time to answer a request (OpenTelemetry name).",
			Buckets: otelBuckets,
		}, []string{"http_request_method", "http_response_status_code", "http_route", "url_scheme"}),
	}
	buildInfo := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "build_info", Help: "Always 1; the label names the version.",
		ConstLabels: prometheus.Labels{"version": a.cfg.version},
	})
	buildInfo.Set(1)

	m.registry.MustRegister(
		m.requests, m.duration, m.otelActive, m.otelDuration, buildInfo,
		// The number that the log of a forced stop reports, so they cannot differ.
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "http_requests_in_flight", Help: "Requests being answered. Probes, scrapes and admin calls are not requests.",
		}, func() float64 { return float64(a.inFlight.Load()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "draining", Help: "1 from the first SIGTERM on.",
		}, func() float64 {
			if a.draining.Load() {
				return 1
			}
			return 0
		}),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)

	// A series that appears with its first event loses that event in rate(),
	// and a missing gauge is not a 0. So the expected ones exist from the start.
	for _, code := range []string{"200", "500"} {
		m.requests.WithLabelValues(code, "get")
	}
	m.otelActive.WithLabelValues(http.MethodGet, "http")
	return m
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// count measures one endpoint. route is its fixed name: a path that the client
// chose must never become a label.
func (a *app) count(route string, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		m, began := a.metrics, time.Now()
		otelMethod, method := methodLabels(r.Method)
		active := m.otelActive.WithLabelValues(otelMethod, "http")

		a.inFlight.Add(1)
		active.Inc()
		res := &response{ResponseWriter: w}
		finished := false
		defer func() { // deferred, so that a panic does not leave the gauges up for ever
			if !finished {
				res.code = http.StatusInternalServerError
			}
			code, took := strconv.Itoa(res.code), time.Since(began).Seconds()
			m.requests.WithLabelValues(code, method).Inc()
			m.duration.WithLabelValues(code, method).Observe(took)
			m.otelDuration.WithLabelValues(otelMethod, code, route, "http").Observe(took)
			active.Dec()
			a.inFlight.Add(-1)
		}()
		next(res, r)
		res.end()
		finished = true
	}
}

// methodLabels returns the method as the OpenTelemetry conventions and as
// promhttp would write it. Unknown ones share a label: a client can invent them
// without end.
func methodLabels(method string) (otel, classic string) {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
		http.MethodDelete, http.MethodConnect, http.MethodOptions, http.MethodTrace:
		return method, strings.ToLower(method)
	}
	return "_OTHER", "unknown"
}
