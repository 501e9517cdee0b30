package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/shifter-dev/shifter/internal/api"
	"github.com/shifter-dev/shifter/internal/release"
)

func (s *Server) releaseRoutes() {
	register(s, huma.Operation{
		OperationID: "createRelease", Method: http.MethodPost, Path: nsPath,
		Summary:     "Ask for a release",
		Description: "Checks everything that can be checked and answers 202 with the accepted release. With dryRun=true nothing is written and the plan is answered.",
		Responses: map[string]*huma.Response{
			"200": s.answer("The plan of a dry run", api.Plan{}),
			"202": s.answer("Accepted; see Location, and Retry-After for when to look", api.Release{}),
		},
		DefaultStatus: http.StatusAccepted,
	}, s.create)
	s.describeBody(nsPath, true, api.CreateRequest{})
	register(s, huma.Operation{
		OperationID: "listReleases", Method: http.MethodGet, Path: nsPath,
		Summary: "List the releases of a namespace", Description: "Those that wait for a person first, then those that run, then those that have ended.",
	}, s.listNamespace)
	register(s, huma.Operation{
		OperationID: "listAllReleases", Method: http.MethodGet, Path: "/v1/releases",
		Summary: "List the releases of all namespaces", Description: "Those that wait for a person first, then those that run, then those that have ended.",
	}, s.listAll)
	register(s, huma.Operation{
		OperationID: "getRelease", Method: http.MethodGet, Path: releasePath,
		Summary:     "Get a release",
		Description: "The ETag is the revision. With wait the answer comes when the revision changes (from If-None-Match, when it is sent), or when the wait is over.",
		Responses:   map[string]*huma.Response{"304": {Description: "The revision is still the one of If-None-Match"}},
	}, s.get)
	register(s, huma.Operation{
		OperationID: "getVerdict", Method: http.MethodGet, Path: releasePath + "/verdict",
		Summary:     "Get the verdict, in one URL for pipelines",
		Description: "200 succeeded; 503 with Retry-After while it runs, so that curl --fail --retry waits and is never green too early; 409 rolledBack, aborted, rejected or failed; 424 held. The body is the same for all.",
		Responses: map[string]*huma.Response{
			"200": s.answer("succeeded", api.Verdict{}),
			"409": s.answer("rolledBack, aborted, rejected or failed", api.Verdict{}),
			"424": s.answer("held", api.Verdict{}),
			"503": s.answer("running", api.Verdict{}),
		},
	}, s.verdict)
	register(s, huma.Operation{
		OperationID: "watchRelease", Method: http.MethodGet, Path: releasePath + "/events",
		Summary:     "Watch a release",
		Description: "Server-sent events: the present state first, then every change, at most one a second; each event \"release\" is the whole release and its id is the view's number. A comment keeps a quiet stream alive. After the end comes an event \"end\" and the stream is closed.",
		Responses: map[string]*huma.Response{"200": {
			Description: "The stream",
			Content:     map[string]*huma.MediaType{streamType: {Schema: &huma.Schema{Type: huma.TypeString}}},
		}},
	}, s.events)
	register(s, huma.Operation{
		OperationID: "abortRelease", Method: http.MethodPost, Path: releasePath + "/abort",
		Summary:     "Stop a release",
		Description: "Puts the wish into the release's inbox and answers 202; 200 when it is aborted already, 409 with a recipe when it has ended otherwise. The body may be left out.",
		Responses: map[string]*huma.Response{
			"200": s.answer("It is aborted already", api.Release{}),
			"202": s.answer("The wish is kept", api.Release{}),
		},
		DefaultStatus: http.StatusAccepted,
	}, s.abort)
	s.describeBody(releasePath+"/abort", false, api.AbortRequest{})
}

// keyOf checks the names in a path.
func keyOf(namespace, name string) (release.Key, error) {
	for _, p := range []struct{ param, val string }{{"namespace", namespace}, {"name", name}} {
		if !api.IsLabel(p.val) {
			return release.Key{}, invalidParameter(p.param, "nameForm", p.param+" is not a DNS-1123 label",
				"use up to 63 lower-case letters, digits and -, beginning and ending with a letter or digit")
		}
	}
	return release.Key{Namespace: namespace, Name: name}, nil
}

type createInput struct {
	Namespace string `path:"namespace" doc:"Namespace of the release"`
	DryRun    string `query:"dryRun" doc:"Only plan; nothing is written" enum:"true,false"`

	body body
	bad  error
}

// Resolve reads the body, and refuses a dryRun without a value: it must not
// create.
func (in *createInput) Resolve(ctx huma.Context) []error {
	u := ctx.URL()
	if vals, ok := u.Query()["dryRun"]; ok && (len(vals) != 1 || vals[0] == "") {
		in.bad = invalidParameter("dryRun", "parameter", "dryRun needs one value", `write "dryRun=true"`)
		return nil
	}
	in.body.read(ctx)
	return nil
}

type createOutput struct {
	Status     int
	Location   string `header:"Location" doc:"The release"`
	RetryAfter string `header:"Retry-After" doc:"Seconds until it is worth looking"`
	Body       any
}

func (s *Server) create(ctx context.Context, in *createInput) (*createOutput, error) {
	if in.bad != nil {
		return nil, in.bad
	}
	var q api.CreateRequest
	if err := in.body.into(&q); err != nil {
		return nil, err
	}
	spec, found := q.Spec(in.Namespace)
	if len(found) > 0 {
		return nil, invalid(api.Findings(found))
	}
	k, err := keyOf(in.Namespace, q.Name)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.pace.call)
	defer cancel()
	if err := s.nameIsFree(ctx, k); err != nil {
		return nil, err
	}
	plan, err := s.planner.Plan(ctx, k, spec, subject(ctx))
	if errors.Is(err, release.ErrExists) {
		return nil, s.taken(ctx, err, plan.Release)
	}
	if err != nil {
		return nil, fmt.Errorf("plan release %s: %w", k, err)
	}
	if len(plan.Findings) > 0 {
		p := invalid(api.Findings(plan.Findings))
		q := api.NewProblem(api.CodeNotSound, p.Detail)
		q.Errors = p.Errors
		return nil, q
	}
	if in.DryRun == "true" {
		if _, busy := s.holderOf(ctx, nil, plan.Release); busy {
			return nil, s.taken(ctx, nil, plan.Release)
		}
		return &createOutput{Status: http.StatusOK, Body: api.FromForecast(plan)}, nil
	}
	if err := s.releases.Create(ctx, plan.Release); err != nil {
		if errors.Is(err, release.ErrExists) {
			return nil, s.taken(ctx, err, plan.Release)
		}
		return nil, fmt.Errorf("create release %s: %w", k, err)
	}
	s.cfg.Log.Info("release accepted", slog.String("release", k.String()), slog.String("subject", subject(ctx)))
	answer := api.FromView(api.RecordView(plan.Release), s.cfg.URL)
	answer.Warnings = api.Findings(plan.Warnings)
	return &createOutput{
		Status: http.StatusAccepted, Location: answer.Links.Self, RetryAfter: seconds(retryAfter), Body: answer,
	}, nil
}

// nameIsFree refuses a name before the world is looked at for it. Create decides.
func (s *Server) nameIsFree(ctx context.Context, k release.Key) error {
	_, err := s.releases.Load(ctx, k)
	switch {
	case err == nil, release.IsUnreadable(err):
		return s.nameTaken(k)
	case errors.Is(err, release.ErrNotFound):
		return nil
	}
	return err
}

func (s *Server) nameTaken(k release.Key) *api.Problem {
	p := api.NewProblem(api.CodeExists, fmt.Sprintf("Release %q exists in namespace %q; a name is used once. Choose another, such as one with the pipeline's run number.", k.Name, k.Namespace))
	p.ActiveRelease = api.LinksOf(k, s.cfg.URL).Self
	return p
}

// taken answers that a name or an object belongs to another release.
func (s *Server) taken(ctx context.Context, err error, r release.Release) *api.Problem {
	k, ok := s.holderOf(ctx, err, r)
	if !ok {
		return api.NewProblem(api.CodeBusy, "Another release that has not ended uses one of these routes or Deployments; wait for it, or abort it.")
	}
	if k == r.Key {
		return s.nameTaken(k)
	}
	p := api.NewProblem(api.CodeBusy, fmt.Sprintf("Release %s has not ended and uses one of these routes or Deployments; wait for it, or abort it.", k))
	p.ActiveRelease = api.LinksOf(k, s.cfg.URL).Self
	return p
}

// holderOf finds the release in the way: the error says so, or it has the same
// name, or it runs and shares a lock.
func (s *Server) holderOf(ctx context.Context, err error, r release.Release) (release.Key, bool) {
	var h holder
	if errors.As(err, &h) {
		return h.HeldBy(), true
	}
	if _, err := s.view(ctx, r.Key); err == nil {
		return r.Key, true
	}
	locks := r.Binding.Locks()
	active, err := s.all(ctx, func(v release.View) bool { return !v.Release.Phase.Terminal() })
	if err != nil {
		return release.Key{}, false
	}
	for _, v := range active {
		for _, l := range v.Release.Binding.Locks() {
			if slices.Contains(locks, l) {
				return v.Release.Key, true
			}
		}
	}
	return release.Key{}, false
}

type listInput struct {
	Phase string `query:"phase" doc:"Only releases in this phase" example:"held"`
}

type listNamespaceInput struct {
	Namespace string `path:"namespace" doc:"Namespace of the releases"`
	Phase     string `query:"phase" doc:"Only releases in this phase" example:"held"`
}

type listOutput struct{ Body api.List }

func (s *Server) listAll(ctx context.Context, in *listInput) (*listOutput, error) {
	return s.list(ctx, "", in.Phase)
}

func (s *Server) listNamespace(ctx context.Context, in *listNamespaceInput) (*listOutput, error) {
	if _, err := keyOf(in.Namespace, "any"); err != nil {
		return nil, err
	}
	return s.list(ctx, in.Namespace, in.Phase)
}

func (s *Server) list(ctx context.Context, namespace, phase string) (*listOutput, error) {
	if phase != "" && !slices.Contains(release.Phases(), release.Phase(phase)) {
		return nil, invalidParameter("phase", "phaseUnknown", "the phase is not known", "use one of "+phaseNames())
	}
	views, err := s.all(ctx, func(v release.View) bool {
		return (namespace == "" || v.Release.Key.Namespace == namespace) && (phase == "" || string(v.Release.Phase) == phase)
	})
	if err != nil {
		return nil, fmt.Errorf("list releases: %w", err)
	}
	out := api.List{Items: []api.Release{}}
	for _, v := range views {
		out.Items = append(out.Items, api.FromView(v, s.cfg.URL))
	}
	return &listOutput{Body: out}, nil
}

func phaseNames() string {
	var names []string
	for _, p := range release.Phases() {
		names = append(names, string(p))
	}
	return strings.Join(names, ", ")
}

type getInput struct {
	Namespace   string `path:"namespace" doc:"Namespace of the release"`
	Name        string `path:"name" doc:"Name of the release"`
	Wait        string `query:"wait" doc:"How long to wait for a change, as a Go duration; at most 25s" example:"25s"`
	IfNoneMatch string `header:"If-None-Match" doc:"The ETag that is known already"`
}

type getOutput struct {
	Status int
	ETag   string `header:"ETag" doc:"The revision"`
	Body   *api.Release
}

func (s *Server) get(ctx context.Context, in *getInput) (*getOutput, error) {
	k, err := keyOf(in.Namespace, in.Name)
	if err != nil {
		return nil, err
	}
	wait, err := waitFor(in.Wait)
	if err != nil {
		return nil, err
	}
	known := in.IfNoneMatch
	if known == "" && wait > 0 {
		v, err := s.view(ctx, k)
		if err != nil {
			return nil, err
		}
		known = etag(v)
	}
	v, err := s.await(ctx, k, wait, func(v release.View) bool { return !matches(known, etag(v)) })
	if err != nil {
		return nil, err
	}
	out := &getOutput{Status: http.StatusOK, ETag: etag(v)}
	if in.IfNoneMatch != "" && matches(in.IfNoneMatch, out.ETag) {
		out.Status = http.StatusNotModified
		return out, nil
	}
	r := api.FromView(v, s.cfg.URL)
	out.Body = &r
	return out, nil
}

// etag is the revision. It is weak: between two revisions the live numbers
// change.
func etag(v release.View) string { return fmt.Sprintf(`W/"%d"`, v.Release.Revision) }

// matches is the weak comparison of If-None-Match; a bare revision is taken too.
func matches(header, tag string) bool {
	opaque := func(s string) string { return strings.Trim(strings.TrimPrefix(strings.TrimSpace(s), "W/"), `"`) }
	for t := range strings.SplitSeq(header, ",") {
		if t = opaque(t); t == "*" || t == opaque(tag) {
			return true
		}
	}
	return false
}

type verdictInput struct {
	Namespace string `path:"namespace" doc:"Namespace of the release"`
	Name      string `path:"name" doc:"Name of the release"`
	Wait      string `query:"wait" doc:"How long to wait for the end or a hold, as a Go duration; at most 25s" example:"25s"`
}

type verdictOutput struct {
	Status     int
	RetryAfter string `header:"Retry-After" doc:"Seconds until it is worth asking again, while it runs"`
	Body       api.Verdict
}

func (s *Server) verdict(ctx context.Context, in *verdictInput) (*verdictOutput, error) {
	k, err := keyOf(in.Namespace, in.Name)
	if err != nil {
		return nil, err
	}
	wait, err := waitFor(in.Wait)
	if err != nil {
		return nil, err
	}
	v, err := s.await(ctx, k, wait, func(v release.View) bool {
		return v.Release.Phase.Terminal() || v.Release.Phase == release.Held
	})
	if err != nil {
		return nil, err
	}
	out := &verdictOutput{Body: api.FromView(v, s.cfg.URL).Verdict()}
	out.Status = out.Body.HTTPStatus()
	if out.Status == http.StatusServiceUnavailable {
		out.RetryAfter = seconds(retryAfter)
		if wait > 0 {
			out.RetryAfter = seconds(retrySoon)
		}
	}
	return out, nil
}

type abortInput struct {
	Namespace string `path:"namespace" doc:"Namespace of the release"`
	Name      string `path:"name" doc:"Name of the release"`

	body body
}

// Resolve reads the body.
func (in *abortInput) Resolve(ctx huma.Context) []error {
	in.body.read(ctx)
	return nil
}

type abortOutput struct {
	Status     int
	Location   string `header:"Location" doc:"The release"`
	RetryAfter string `header:"Retry-After" doc:"Seconds until it is worth looking"`
	Body       api.Release
}

func (s *Server) abort(ctx context.Context, in *abortInput) (*abortOutput, error) {
	k, err := keyOf(in.Namespace, in.Name)
	if err != nil {
		return nil, err
	}
	var q api.AbortRequest
	if len(in.body.raw) > 0 || in.body.bad != nil {
		if err := in.body.into(&q); err != nil {
			return nil, err
		}
	}
	c, found := q.Command()
	if len(found) > 0 {
		return nil, invalid(api.Findings(found))
	}
	c.Subject, c.At = subject(ctx), s.cfg.Now()
	ctx, cancel := context.WithTimeout(ctx, s.pace.call)
	defer cancel()
	rec, err := s.releases.Load(ctx, k)
	if err != nil {
		return nil, fmt.Errorf("abort %s: %w", k, err)
	}
	if rec.Release.Phase.Terminal() {
		return s.abortEnded(rec.Release)
	}
	if !asked(rec, c) {
		if _, err := s.releases.Append(ctx, k, c); err != nil {
			return s.abortRefused(ctx, k, err)
		}
		s.cfg.Log.Info("abort accepted", slog.String("release", k.String()), slog.String("subject", c.Subject),
			slog.String("traffic", string(c.Traffic)), slog.String("mode", string(c.Mode)))
	}
	v, err := s.view(ctx, k)
	if err != nil {
		v = api.RecordView(rec.Release) // the wish is kept; that counts
	}
	answer := api.FromView(v, s.cfg.URL)
	return &abortOutput{Status: http.StatusAccepted, Location: answer.Links.Self, RetryAfter: seconds(retrySoon), Body: answer}, nil
}

// asked reports whether the same wish waits in the inbox already, so that a
// pipeline that repeats itself does not fill it.
func asked(rec release.Record, c release.Command) bool {
	return slices.ContainsFunc(rec.Inbox, func(o release.Command) bool {
		return o.Seq > rec.Release.Consumed && o.Verb == c.Verb && o.Traffic == c.Traffic && o.Mode == c.Mode
	})
}

// abortRefused answers an append that failed: the release may have ended since
// it was loaded.
func (s *Server) abortRefused(ctx context.Context, k release.Key, err error) (*abortOutput, error) {
	if errors.Is(err, release.ErrRefused) {
		if rec, again := s.releases.Load(ctx, k); again == nil && rec.Release.Phase.Terminal() {
			return s.abortEnded(rec.Release)
		}
	}
	return nil, fmt.Errorf("abort %s: %w", k, err)
}

func (s *Server) abortEnded(r release.Release) (*abortOutput, error) {
	if r.Phase == release.Aborted {
		answer := api.FromView(api.RecordView(r), s.cfg.URL)
		return &abortOutput{Status: http.StatusOK, Location: answer.Links.Self, Body: answer}, nil
	}
	p := api.NewProblem(api.CodeEnded, fmt.Sprintf("Release %s has ended: %s. There is nothing left to abort.", r.Key, r.Phase))
	p.Recipe = recipe(r)
	return nil, p
}

// recipe says what to do instead of aborting a release that has ended.
func recipe(r release.Release) []string {
	b := r.Binding.Tracks[release.Primary] // whose template a release may change
	back, ns := r.Spec.Tracks[release.Primary].Deployment, b.Namespace
	if ns == "" {
		ns = r.Key.Namespace
	}
	switch r.Phase {
	case release.Succeeded:
		if !slices.Contains(r.Spec.Stages, release.StageShift) {
			return []string{"To go back, give the primary its weights in the route again: it still has the pods for all of the traffic."}
		}
		out := []string{"To go back, release the old version the same safe way: put it on the canary Deployment and POST a new release."}
		if u := b.UndoTo; u != nil {
			out = append(out, fmt.Sprintf("In an emergency: kubectl -n %s rollout undo deployment/%s --to-revision=%d (the template before this release).", ns, back, u.Revision))
		}
		return out
	case release.RolledBack, release.Rejected:
		return []string{"Nothing: the traffic is where it was before the release."}
	case release.Failed:
		return []string{"A person must look: the release's message and history say what is left.", "The traffic stays where it is until then."}
	case release.Aborted, release.Pending, release.Preflight, release.Growing, release.Shifting, release.Settling,
		release.Gating, release.Promoting, release.Draining, release.Shrinking, release.Confirming,
		release.Retreating, release.Undoing, release.Held:
	}
	return nil
}
