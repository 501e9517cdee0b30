package server

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/shifter-dev/shifter/internal/api"
)

// contentPolicy: everything from here, nothing inline.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// newEcho makes the router with everything that each request goes through, the
// outermost first.
func (s *Server) newEcho() *echo.Echo {
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	e.IPExtractor = echo.ExtractIPDirect()
	e.HTTPErrorHandler = s.answerError
	e.Pre(s.recovered, headers, deadlines, s.hostAllowed, sameOrigin())
	e.Use(s.known)
	return e
}

// recovered turns a panic into a problem. The panic goes to the log, never to
// the client.
func (s *Server) recovered(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) (err error) {
		defer func() {
			p := recover()
			if p == nil {
				return
			}
			if p == http.ErrAbortHandler { //nolint:errorlint // the value itself is thrown
				panic(p)
			}
			s.cfg.Log.Error("a request panicked", slog.Any("panic", p),
				slog.String("path", c.Request().URL.Path), slog.String("stack", string(debug.Stack())))
			if c.Response().Committed {
				panic(http.ErrAbortHandler) // the answer is half written: cut it
			}
			err = api.NewProblem(api.CodeInternal, "Something went wrong in shifter; its log says what. Releases go on.")
		}()
		return next(c)
	}
}

func headers(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		h := c.Response().Header()
		h.Set("Content-Security-Policy", contentPolicy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		return next(c)
	}
}

// deadlines bounds the writing of an answer; a stream sets its own for each
// write. (The server's read timeout does not end a request that waits: net/http
// takes it off once the body is read. A test holds it to that.)
func deadlines(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		rc := http.NewResponseController(c.Response())
		_ = rc.SetWriteDeadline(time.Now().Add(answerTime)) // a recorder in a test has none
		return next(c)
	}
}

// hostAllowed keeps a page of another site from reaching a loopback server under
// a name of its own (DNS rebinding). Probes ask by whatever name.
func (s *Server) hostAllowed(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := c.Request()
		if r.URL.Path == "/livez" || r.URL.Path == "/readyz" || s.cfg.servesHost(r.Host) {
			return next(c)
		}
		return api.NewProblem(api.CodeHost, "This server does not serve that host name; use "+strings.Join(s.cfg.Hosts, ", ")+" or an IP address.")
	}
}

// sameOrigin refuses state changes that a browser sends from another site.
func sameOrigin() echo.MiddlewareFunc {
	guard := http.NewCrossOriginProtection()
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			if guard.Check(c.Request()) != nil {
				return api.NewProblem(api.CodeCrossOrigin, "A browser sent this from another site; such requests may not change anything.")
			}
			return next(c)
		}
	}
}

// headAsGet answers HEAD where GET is; net/http leaves out the body, since it
// keeps its own request. A stream has no end to wait for, so it stays GET only.
// This is around echo, which picks the route by the request it was given.
func headAsGet(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodHead && !strings.HasSuffix(r.URL.Path, "/events") && !strings.HasSuffix(r.URL.Path, "/live") {
			r = r.WithContext(r.Context())
			r.Method = http.MethodGet
		}
		next.ServeHTTP(w, r)
	})
}

type subjectKey struct{}

// isOpen lists what anybody may have: probes, the page's own files, metrics and
// the API's description. Everything else needs a subject.
func isOpen(path string) bool {
	switch path {
	case "/livez", "/readyz", "/metrics", "/openapi.json":
		return true
	}
	return strings.HasPrefix(path, assetPath)
}

// known asks who is calling, before anything of the body is read.
func (s *Server) known(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := c.Request()
		if isOpen(r.URL.Path) {
			return next(c)
		}
		who, err := s.cfg.Subject(r)
		if err != nil {
			s.cfg.Log.Info("a caller was not accepted", slog.Any("error", err), slog.String("path", r.URL.Path))
			c.Response().Header().Set("WWW-Authenticate", `Bearer realm="shifter"`)
			return api.NewProblem(api.CodeUnauthorized, "Say who you are with a bearer token.")
		}
		c.SetRequest(r.WithContext(context.WithValue(r.Context(), subjectKey{}, who)))
		return next(c)
	}
}

// subject is who asks; known has put it there.
func subject(ctx context.Context) string {
	who, _ := ctx.Value(subjectKey{}).(string)
	return who
}

// answerError answers every error that reaches echo: its own for an unknown path
// or method, problems of ours, and faults.
func (s *Server) answerError(err error, c echo.Context) {
	if c.Response().Committed {
		s.cfg.Log.Warn("an answer broke off", slog.String("path", c.Request().URL.Path), slog.Any("error", err))
		return
	}
	p := s.problem(c.Request().Context(), err)
	var he *echo.HTTPError
	if errors.As(err, &he) {
		p = s.echoProblem(he, c)
	}
	p.Instance = c.Request().URL.Path
	if p.RetryAfter > 0 {
		c.Response().Header().Set("Retry-After", seconds(p.RetryAfter))
	}
	if err := s.writeProblem(c, p); err != nil {
		s.cfg.Log.Debug("an error could not be answered", slog.Any("error", err))
	}
}

func (s *Server) echoProblem(he *echo.HTTPError, c echo.Context) *api.Problem {
	switch he.Code {
	case http.StatusNotFound:
		return api.NewProblem(api.CodeNotFound, "No such path. The API is described at /openapi.json.")
	case http.StatusMethodNotAllowed:
		allow := c.Response().Header().Get("Allow")
		return api.NewProblem(api.CodeMethod, c.Request().Method+" is not possible here; possible: "+allow+".")
	}
	return s.problem(c.Request().Context(), he)
}
