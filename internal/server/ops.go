package server

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humaecho"
	"github.com/labstack/echo/v4"

	"github.com/shifter-dev/shifter/internal/api"
)

const (
	nsPath      = "/v1/namespaces/{namespace}/releases"
	releasePath = nsPath + "/{name}"
	problemType = "application/problem+json"
	jsonType    = "application/json"
	streamType  = "text/event-stream"
)

// routes registers every path. Whatever is not here is a 404.
func (s *Server) routes() error {
	s.api = humaecho.New(s.echo, huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info: &huma.Info{
				Title: "shifter", Version: s.cfg.Version,
				Description: "Moves mesh route weights to a new version in steps, gated on telemetry, and goes back without dropping a request. " +
					"Requests are strict; answers may grow. Durations are Go strings in requests and seconds in answers; shares are percents, rates are shares of requests between 0 and 1.",
				License: &huma.License{Name: "Apache-2.0", Identifier: "Apache-2.0"},
			},
			Components: &huma.Components{Schemas: huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer)},
		},
		// The document is served below: huma makes it at the first request and
		// does not guard that.
		Formats:                      map[string]huma.Format{jsonType: huma.DefaultJSONFormat, "json": huma.DefaultJSONFormat},
		DefaultFormat:                jsonType,
		RejectUnknownQueryParameters: true,
		Transformers:                 []huma.Transformer{s.transform},
	})
	s.releaseRoutes()
	s.pageRoutes()
	if s.cfg.Metrics != nil {
		s.echo.GET("/metrics", echo.WrapHandler(s.cfg.Metrics))
	}
	s.echo.GET("/livez", func(c echo.Context) error { return c.String(http.StatusOK, "ok\n") })
	s.echo.GET("/readyz", s.ready)
	s.trueSchemas()
	doc, err := json.MarshalIndent(s.api.OpenAPI(), "", "  ")
	if err != nil {
		return fmt.Errorf("write the OpenAPI document: %w", err)
	}
	s.echo.GET("/openapi.json", func(c echo.Context) error {
		return c.Blob(http.StatusOK, "application/openapi+json", doc)
	})
	return nil
}

// trueSchemas puts right what huma cannot say: that an object may be null, which
// is how an answer says that something does not apply or is not known, and that
// answers may grow while requests are strict. It also drops huma's own error
// model, which is never sent.
func (s *Server) trueSchemas() {
	reg := s.api.OpenAPI().Components.Schemas
	delete(reg.Map(), "ErrorModel")
	delete(reg.Map(), "ErrorDetail")
	strict := map[reflect.Type]bool{}
	requestTypes(reflect.TypeFor[api.CreateRequest](), strict)
	requestTypes(reflect.TypeFor[api.AbortRequest](), strict)
	for name, schema := range reg.Map() {
		t := reg.TypeFromRef("#/components/schemas/" + name)
		if t == nil || t.Kind() != reflect.Struct {
			continue
		}
		if !strict[t] {
			schema.AdditionalProperties = nil
		}
		for i := range t.NumField() {
			f := t.Field(i)
			key, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
			if f.Type.Kind() != reflect.Pointer || strings.Contains(opts, "omitempty") {
				continue
			}
			if p := schema.Properties[key]; p != nil && p.Ref != "" {
				schema.Properties[key] = &huma.Schema{
					Description: p.Description,
					AnyOf:       []*huma.Schema{{Ref: p.Ref}, {Type: "null"}},
				}
			}
		}
		schema.PrecomputeMessages()
	}
}

// requestTypes gathers a type and the types of its fields.
func requestTypes(t reflect.Type, into map[reflect.Type]bool) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || into[t] {
		return
	}
	into[t] = true
	for i := range t.NumField() {
		requestTypes(t.Field(i).Type, into)
	}
}

func (s *Server) ready(c echo.Context) error {
	err := s.cfg.Ready(c.Request().Context())
	if err != nil || s.stopped() {
		p := api.NewProblem(api.CodeNotReady, "This copy of shifter cannot serve now.")
		p.RetryAfter = retrySoon
		if err != nil {
			s.cfg.Log.Warn("not ready", slog.Any("error", err))
		}
		return p
	}
	if standing := s.cfg.Standing(); standing != "" {
		return c.String(http.StatusOK, "ok: "+standing+"\n")
	}
	return c.String(http.StatusOK, "ok\n")
}

// register adds an operation whose errors go through the one table.
func register[I, O any](s *Server, op huma.Operation, fn func(context.Context, *I) (*O, error)) {
	op.Responses = s.withProblems(op.Responses)
	huma.Register(s.api, op, func(ctx context.Context, in *I) (*O, error) {
		out, err := fn(ctx, in)
		if err == nil {
			return out, nil
		}
		p := s.problem(ctx, err)
		if p.RetryAfter > 0 {
			return nil, huma.ErrorWithHeaders(p, http.Header{"Retry-After": {seconds(p.RetryAfter)}})
		}
		return nil, p
	})
}

func (s *Server) schema(v any) *huma.Schema {
	t := reflect.TypeOf(v)
	return s.api.OpenAPI().Components.Schemas.Schema(t, true, t.Name())
}

// answer describes one answer of an operation.
func (s *Server) answer(description string, v any) *huma.Response {
	return &huma.Response{
		Description: description,
		Content:     map[string]*huma.MediaType{jsonType: {Schema: s.schema(v)}},
	}
}

func (s *Server) withProblems(in map[string]*huma.Response) map[string]*huma.Response {
	if in == nil {
		in = map[string]*huma.Response{}
	}
	problem := &huma.MediaType{Schema: s.schema(api.Problem{})}
	for _, code := range []int{http.StatusUnprocessableEntity, http.StatusServiceUnavailable} {
		key := strconv.Itoa(code)
		if in[key] == nil {
			in[key] = &huma.Response{Description: http.StatusText(code), Content: map[string]*huma.MediaType{}}
		}
		in[key].Content[problemType] = problem
	}
	in["default"] = &huma.Response{Description: "Every other error", Content: map[string]*huma.MediaType{problemType: problem}}
	return in
}

// describeBody tells the document about a body that is read by [body], which
// huma does not see.
func (s *Server) describeBody(path string, required bool, v any) {
	s.api.OpenAPI().Paths[path].Post.RequestBody = &huma.RequestBody{
		Required: required,
		Content:  map[string]*huma.MediaType{jsonType: {Schema: s.schema(v)}},
	}
}
