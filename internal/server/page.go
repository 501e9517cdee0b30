package server

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"regexp"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/shifter-dev/shifter/internal/api"
	"github.com/shifter-dev/shifter/internal/release"
)

//go:embed templates/*.html
var templateFiles embed.FS

//go:embed assets/*
var assetFiles embed.FS

const (
	assetPath = "/assets/"
	// reloadEvery is how often a page without scripts reloads itself, when its
	// reader asks for that; it never does so unasked (WCAG 2.2.1).
	reloadEvery = 10
)

// asset is one file of the page. Its URL has its hash, so it can be kept.
type asset struct {
	url  string
	kind string
	body []byte
}

// frame is what every page has around its contents.
type frame struct {
	State   state
	Version string
	Path    string
	Stream  string // the live stream of the page, empty without one
	Reload  int    // seconds; 0 when the reader has not asked for it
}

type listPage struct {
	frame
	Rows []listRow
	AsOf moment
	Host string
}

type listRow struct {
	State     state
	Namespace string
	Name      string
	Page      string
	Versions  string
	Headline  string
	Declared  string
	Shown     string
	In, Out   string // the incoming and the outgoing track
	InPods    string
	OutPods   string
	Gate      string
	Delta     string
	Next      *nextLine
	Age       string
	Message   string
	Needs     bool
}

type detailPage struct {
	frame
	detail
}

type errorPage struct {
	frame
	P *api.Problem
}

func (s *Server) loadAssets() error {
	s.assets = map[string]asset{}
	kinds := map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
	files, err := fs.ReadDir(assetFiles, "assets")
	if err != nil {
		return fmt.Errorf("read the page's files: %w", err)
	}
	for _, f := range files {
		b, err := fs.ReadFile(assetFiles, "assets/"+f.Name())
		if err != nil {
			return fmt.Errorf("read the page's files: %w", err)
		}
		sum := sha256.Sum256(b)
		s.assets[f.Name()] = asset{
			url:  assetPath + f.Name() + "?" + hex.EncodeToString(sum[:6]),
			kind: kinds[path.Ext(f.Name())], body: b,
		}
	}
	s.pages, err = template.New("").Funcs(template.FuncMap{
		"asset": func(name string) (string, error) {
			a, ok := s.assets[name]
			if !ok {
				return "", fmt.Errorf("no asset %q", name)
			}
			return a.url, nil
		},
		"percent": percent,
		"add":     func(a, b float64) float64 { return a + b },
		"sub":     func(a, b float64) float64 { return a - b },
		"count":   count,
	}).ParseFS(templateFiles, "templates/*.html")
	if err != nil {
		return fmt.Errorf("read the templates: %w", err)
	}
	return nil
}

func (s *Server) pageRoutes() {
	for name, a := range s.assets {
		s.echo.GET(assetPath+name, func(c echo.Context) error {
			c.Response().Header().Set("Cache-Control", "public, max-age=31536000, immutable")
			return c.Blob(http.StatusOK, a.kind, a.body)
		})
	}
	s.echo.GET("/", s.listPage)
	s.echo.GET("/live", s.listLive)
	s.echo.GET("/namespaces/:namespace/releases/:name", s.detailPage)
	s.echo.GET("/namespaces/:namespace/releases/:name/live", s.detailLive)
}

// write renders a whole page, or nothing of it when that fails.
func (s *Server) write(c echo.Context, status int, name string, data any) error {
	b, err := s.render(name, data)
	if err != nil {
		return err
	}
	return c.HTMLBlob(status, b)
}

func (s *Server) render(name string, data any) ([]byte, error) {
	var b bytes.Buffer
	if err := s.pages.ExecuteTemplate(&b, name, data); err != nil {
		return nil, fmt.Errorf("render %s: %w", name, err)
	}
	return b.Bytes(), nil
}

func (s *Server) frame(c echo.Context, st state, stream string) frame {
	f := frame{State: st, Version: s.cfg.Version, Path: c.Request().URL.Path, Stream: stream}
	if c.QueryParam("reload") == seconds(reloadEvery) && !st.Ended {
		f.Reload = reloadEvery
	}
	return f
}

func (s *Server) listPage(c echo.Context) error {
	p, err := s.listNow(c)
	if err != nil {
		return err
	}
	return s.write(c, http.StatusOK, "list", p)
}

func (s *Server) listNow(c echo.Context) (listPage, error) {
	views, err := s.all(c.Request().Context(), func(release.View) bool { return true })
	if err != nil {
		return listPage{}, err
	}
	now := s.cfg.Now()
	p := listPage{AsOf: at(now, now), Host: s.origin(c.Request())}
	waiting, running := 0, 0
	for _, v := range views {
		r := api.FromView(v, "")
		p.Rows = append(p.Rows, newListRow(r, now))
		switch {
		case v.Release.Phase == release.Held:
			waiting++
		case !v.Release.Phase.Terminal():
			running++
		}
	}
	st := state{Tone: toneRun, Title: "shifter", Say: fmt.Sprintf("%d running, %d held.", running, waiting)}
	switch {
	case waiting > 0:
		st.Tone, st.Title = toneHold, fmt.Sprintf("%d held · shifter", waiting)
	case running > 0:
		st.Title = fmt.Sprintf("%d running · shifter", running)
	}
	p.frame = s.frame(c, st, "/live")
	return p, nil
}

func newListRow(r api.Release, now time.Time) listRow {
	st := r.Status
	in, out := trackOf(st, st.Incoming), trackOf(st, st.Outgoing)
	row := listRow{
		State: stateOf(r), Namespace: r.Namespace, Name: r.Name, Page: r.Links.Page,
		Versions: version(shownTemplate(in)), Headline: headline(r), Message: st.Message, Needs: st.NeedsHuman,
		Declared: dash, Shown: dash,
		In: st.Incoming, Out: st.Outgoing, InPods: podsText(in), OutPods: podsText(out),
	}
	if st.Share.Declared != nil {
		row.Declared = percent(*st.Share.Declared)
	}
	if st.Share.Shown != nil {
		row.Shown = percent(*st.Share.Shown)
	}
	if g := st.Gate; g != nil {
		row.Gate = g.Outcome
		if g.Delta != nil {
			row.Delta = points(g.Delta.Mid)
		}
	}
	if st.Next != nil && st.Next.At != nil {
		row.Next = &nextLine{Action: st.Next.Action, At: atPtr(st.Next.At, now)}
	}
	switch {
	case st.Ended != nil:
		row.Age = lasting(now.Sub(*st.Ended).Seconds()) + " ago"
	case r.Created != nil:
		row.Age = "for " + lasting(now.Sub(*r.Created).Seconds())
	}
	return row
}

func podsText(t api.TrackStatus) string { return orDash(t.Ready) + " / " + orDash(t.Need) }

func (s *Server) detailPage(c echo.Context) error {
	k, err := keyOf(c.Param("namespace"), c.Param("name"))
	if err != nil {
		return err
	}
	v, err := s.view(c.Request().Context(), k)
	if err != nil {
		return err
	}
	return s.write(c, http.StatusOK, "detail", s.detail(c, v))
}

func (s *Server) detail(c echo.Context, v release.View) detailPage {
	r := api.FromView(v, "")
	st := stateOf(r)
	stream := r.Links.Page + "/live"
	if st.Ended {
		stream = ""
	}
	return detailPage{frame: s.frame(c, st, stream), detail: newDetail(r, s.cfg.Now(), s.origin(c.Request()))}
}

// detailLive streams the changing part of a release's page.
func (s *Server) detailLive(c echo.Context) error {
	k, err := keyOf(c.Param("namespace"), c.Param("name"))
	if err != nil {
		return err
	}
	v, err := s.view(c.Request().Context(), k)
	if err != nil {
		return err
	}
	return s.streamRelease(c, v, func(v release.View) ([]byte, error) {
		b, err := s.render("detail-live", s.detail(c, v))
		return message("page", v.Seq, b), err
	})
}

// listLive streams the table of releases.
func (s *Server) listLive(c echo.Context) error {
	ctx, cancel := context.WithCancel(c.Request().Context())
	defer cancel()
	var last []byte
	table := func(release.View) (update, error) {
		p, err := s.listNow(c)
		if err != nil {
			return update{}, err
		}
		b, err := s.render("list-live", p)
		if err != nil || bytes.Equal(b, last) {
			return update{}, err
		}
		last = b
		return update{msg: message("page", 0, b)}, nil
	}
	first, err := table(release.View{})
	if err != nil {
		return err
	}
	return s.stream(c, first, s.follow(ctx, release.Key{}), table)
}

func (s *Server) errorPage(c echo.Context, p *api.Problem) error {
	st := state{Tone: toneStop, Title: fmt.Sprintf("%d · shifter", p.Status), Ended: true}
	return s.write(c, p.Status, "error", errorPage{frame: s.frame(c, st, ""), P: p})
}

var plainHost = regexp.MustCompile(`^[a-zA-Z0-9.:\[\]-]+$`)

// origin is where the reader reached this server, for commands to copy.
func (s *Server) origin(r *http.Request) string {
	if s.cfg.URL != "" {
		return s.cfg.URL
	}
	host := cmp.Or(r.Host, "localhost")
	if !plainHost.MatchString(host) {
		host = "localhost"
	}
	if r.TLS != nil {
		return "https://" + host
	}
	return "http://" + host
}
