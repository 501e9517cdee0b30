package server

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/labstack/echo/v4"

	"github.com/shifter-dev/shifter/internal/api"
	"github.com/shifter-dev/shifter/internal/release"
)

// problem is the one table from errors to answers. What an error says goes to
// the log; the answer is made of our own words.
func (s *Server) problem(ctx context.Context, err error) *api.Problem {
	var own *api.Problem
	if errors.As(err, &own) {
		return own
	}
	var p *api.Problem
	switch {
	case errors.Is(err, release.ErrNotFound):
		return api.NewProblem(api.CodeNoRelease, "There is no such release, or you may not see it.")
	case errors.Is(err, release.ErrConflict):
		p = api.NewProblem(api.CodeConflict, "Somebody else changed the same thing at the same time; ask again.")
		p.RetryAfter = retrySoon
	case errors.Is(err, release.ErrForbidden):
		p = api.NewProblem(api.CodeForbidden, "Shifter itself may not look at what this needs; its service account lacks a right.")
	case errors.Is(err, release.ErrUnavailable), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		p = api.NewProblem(api.CodeUnavailable, s.cfg.World+" does not answer; nothing was changed that was not answered before. Try again; shifter's log says what went wrong.")
		p.RetryAfter = retryAfter
	default:
		p = api.NewProblem(api.CodeInternal, "Something went wrong in shifter; its log says what. Releases go on.")
	}
	if ctx.Err() == nil || p.Code == api.CodeInternal {
		s.cfg.Log.Warn("a request could not be answered", slog.String("code", string(p.Code)), slog.Any("error", err))
	}
	return p
}

// invalid answers what is wrong with a request.
func invalid(findings []api.Finding) *api.Problem {
	detail := "Nothing was done. " + findings[0].Message + "."
	if n := len(findings); n > 1 {
		detail += " There are " + strconv.Itoa(n) + " findings in all, see errors."
	}
	p := api.NewProblem(api.CodeInvalid, detail)
	p.Errors = findings
	return p
}

func invalidParameter(name, code, message, fix string) *api.Problem {
	return invalid([]api.Finding{{Parameter: name, Code: code, Message: message, Fix: fix}})
}

// transform is huma's last word on every answer: its own error model becomes a
// problem, and a problem learns which request it answers.
func (s *Server) transform(ctx huma.Context, _ string, v any) (any, error) {
	u := ctx.URL()
	switch e := v.(type) {
	case *api.Problem:
		e.Instance = u.Path
	case *huma.ErrorModel:
		p := fromHuma(e)
		p.Instance = u.Path
		return p, nil
	}
	return v, nil
}

func fromHuma(e *huma.ErrorModel) *api.Problem {
	if e.Status != http.StatusUnprocessableEntity && e.Status != http.StatusBadRequest {
		p := api.NewProblem(api.CodeInternal, "Something went wrong in shifter; its log says what. Releases go on.")
		p.Status = e.Status
		return p
	}
	var found []api.Finding
	for _, d := range e.Errors {
		_, name, _ := strings.Cut(d.Location, ".")
		f := api.Finding{Parameter: name, Code: "parameter", Message: d.Message}
		if d.Message == "unknown query parameter" {
			f.Code, f.Message, f.Fix = "unknownParameter", "query parameter "+strconv.Quote(name)+" is not known", "leave it out; /openapi.json lists the known ones"
		}
		found = append(found, f)
	}
	if len(found) == 0 {
		found = []api.Finding{{Code: "request", Message: "the request cannot be read"}}
	}
	return invalid(found)
}

// writeProblem answers with a problem, or with a page where a browser asked for
// one.
func (s *Server) writeProblem(c echo.Context, p *api.Problem) error {
	if wantsPage(c.Request()) {
		return s.errorPage(c, p)
	}
	c.Response().Header().Set(echo.HeaderContentType, p.ContentType(""))
	c.Response().WriteHeader(p.Status)
	return huma.DefaultJSONFormat.Marshal(c.Response(), p)
}

func wantsPage(r *http.Request) bool {
	return r.Method == http.MethodGet && !strings.HasPrefix(r.URL.Path, "/v1/") &&
		strings.Contains(r.Header.Get("Accept"), "text/html")
}

func seconds(n int) string { return strconv.Itoa(n) }
