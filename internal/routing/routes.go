package routing

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/shifter-dev/shifter/internal/kube"
	"github.com/shifter-dev/shifter/internal/release"
)

// Config is what a cluster may need to have said. The zero value is good.
type Config struct {
	// Domain is the cluster's domain; empty means DefaultDomain.
	Domain string
	// Timeout bounds each call, within its caller's deadline; zero means 10 s.
	Timeout time.Duration
	// Mirrors says how long what Watch follows is kept, and what is waited for; its
	// Timeout, Strip and Logger are ours.
	Mirrors kube.MirrorsConfig
	// Logger is told of watches that end; nil discards.
	Logger *slog.Logger
}

// Routes reads and sets splits in a cluster.
type Routes struct {
	client  dynamic.Interface
	cfg     Config
	mirrors *kube.Mirrors

	mu sync.Mutex
	// tracks are the backends that a release means in a route, by its UID: an
	// action names the route and the weights only, and one release at a time moves
	// a route. It has an entry for each route that was ever bound, so it is as
	// large as the cluster at most.
	tracks map[string][2]Backend
}

// New makes Routes on a client; NewClient's sends each patch once.
func New(client dynamic.Interface, cfg Config) *Routes {
	if cfg.Domain == "" {
		cfg.Domain = DefaultDomain
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = 10 * time.Second
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	cfg.Mirrors.Timeout, cfg.Mirrors.Strip, cfg.Mirrors.Logger = cfg.Timeout, strip, cfg.Logger
	return &Routes{client: client, cfg: cfg, mirrors: kube.NewMirrors(client, cfg.Mirrors), tracks: map[string][2]Backend{}}
}

// NewClient makes a dynamic client that sends each patch once: what a patch
// expects may be gone by the time of a second try, and the next look is the
// better one. Where the configuration sets no limit of requests there is none:
// the API server's own fairness knows better, and the client's default would hold
// a retreat up.
func NewClient(cfg *rest.Config, h *http.Client) (dynamic.Interface, error) {
	cfg = dynamic.ConfigFor(cfg)
	cfg.GroupVersion = nil
	if cfg.QPS == 0 && cfg.RateLimiter == nil {
		cfg.QPS = -1
	}
	c, err := rest.UnversionedRESTClientForConfigAndClient(cfg, h)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return dynamic.New(patchOnce{c}), nil
}

type patchOnce struct{ rest.Interface }

// Patch begins a request that is not tried again.
func (c patchOnce) Patch(t types.PatchType) *rest.Request { return c.Interface.Patch(t).MaxRetries(0) }

// Read looks at every bound route, in order. One that is gone, or another object
// by UID, has unknown facts with the reason.
//
// While a Watch of the route lasts and its mirror is current (see [kube.Mirrors]),
// the answer comes from there and costs no call; otherwise the route is read live.
// A fact is as old as the look in both: a mirror that is current would have heard
// of a change, so what it shows is so now, however long ago it last changed.
//
// That is good enough for a look right before an effect. A write of a route reads
// it live, decides on that, and is taken only while all it relies on is still so:
// nothing that was looked at here weakens it, and a mirror that lags costs a
// conflict and another turn. What a mirror shows is never older than what this
// process last wrote, so no decision is taken on weights that we have changed
// since. What is left are effects on Deployments that go by a route's weights (a
// track is made smaller, or undone): the API server cannot test those, with a live
// look neither. Against a change by others in between stand that the weights must
// be shown by the data plane too, and the drain seen quiet, which are measured
// anew, and that a mirror lags by milliseconds. It lags by the bound of Mirrors when
// its connection dies in silence, but the live read that every write begins with
// takes the same connection as a rule (HTTP/2), and then fails. Whoever wants no
// more than a call's time in between asks ReadLive.
func (r *Routes) Read(ctx context.Context, b release.Binding) ([]release.RouteState, error) {
	until := r.mirrors.Patience()
	return r.readAll(ctx, b, func(ref release.RouteRef) (kind, *unstructured.Unstructured, time.Time, error) {
		return r.see(ctx, ref, until)
	})
}

// ReadLive is Read without mirrors: a call for each route.
func (r *Routes) ReadLive(ctx context.Context, b release.Binding) ([]release.RouteState, error) {
	return r.readAll(ctx, b, func(ref release.RouteRef) (kind, *unstructured.Unstructured, time.Time, error) {
		return r.seeLive(ctx, ref)
	})
}

// sight is one look at a route, and its time.
type sight func(release.RouteRef) (kind, *unstructured.Unstructured, time.Time, error)

func (r *Routes) readAll(ctx context.Context, b release.Binding, see sight) ([]release.RouteState, error) {
	if err := kube.Ended(ctx); err != nil {
		return nil, fmt.Errorf("reading the routes: %w", err)
	}
	out := make([]release.RouteState, 0, len(b.Routes))
	for _, br := range b.Routes {
		r.remember(br.UID, bound(b.Tracks), true)
		s, err := r.look(br, b, see)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", br.Ref, err)
		}
		out = append(out, s)
	}
	return out, nil
}

// see reads a route from its mirror if that is current, and live otherwise.
func (r *Routes) see(ctx context.Context, ref release.RouteRef, until time.Time) (kind, *unstructured.Unstructured, time.Time, error) {
	if k, ok := kindOf(ref.Kind); ok {
		s, current := r.mirrors.Read(ctx, selection(k, ref), until)
		switch {
		case !current:
		case len(s.Objects) == 0:
			return k, nil, s.At, kube.Explain(apierrors.NewNotFound(k.resource.GroupResource(), ref.Name))
		default:
			return k, s.Objects[0], s.At, nil
		}
	}
	return r.seeLive(ctx, ref)
}

func (r *Routes) seeLive(ctx context.Context, ref release.RouteRef) (kind, *unstructured.Unstructured, time.Time, error) {
	now := time.Now() // what is seen is at least as new
	k, obj, err := r.get(ctx, ref)
	return k, obj, now, err
}

// remember keeps what a release means by its tracks. A request that is only
// being resolved does not speak for the release that may be under way.
func (r *Routes) remember(uid string, tracks [2]Backend, active bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.tracks[uid]; active || !ok {
		r.tracks[uid] = tracks
	}
}

func (r *Routes) remembered(uid string) ([2]Backend, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t, ok := r.tracks[uid]
	return t, ok
}

func (r *Routes) look(br release.BoundRoute, b release.Binding, see sight) (release.RouteState, error) {
	k, obj, now, err := see(br.Ref)
	switch {
	case err == nil:
	case missing(err):
		return unseen(br.Ref, err.Error()), nil
	default:
		return release.RouteState{}, err
	}
	if uid := string(obj.GetUID()); uid != br.UID {
		s := unseen(br.Ref, another(obj, br.UID))
		s.UID = uid
		return s, nil
	}
	s := release.RouteState{
		Ref: br.Ref, UID: br.UID,
		Marked:  release.Known(marked(obj, b.Key), now),
		Foreign: foreign(obj, k.rules),
	}
	if split, err := r.find(obj, bound(b.Tracks), br.Ref); err == nil {
		s.Split = release.Known(split.Pairs(), now)
	} else {
		s.Split = release.Unseen[[]release.Pair](err.Error())
	}
	if n, err := epoch(obj); err == nil {
		s.Epoch = release.Known(n, now)
	} else {
		s.Epoch = release.Unseen[uint64](err.Error())
	}
	accepted, refusal := acceptance(obj, k)
	s.Accepted, s.Refusal = release.Known(accepted, now), refusal
	return s, nil
}

func unseen(ref release.RouteRef, why string) release.RouteState {
	return release.RouteState{
		Ref:   ref,
		Split: release.Unseen[[]release.Pair](why), Accepted: release.Unseen[release.Acceptance](why),
		Epoch: release.Unseen[uint64](why), Marked: release.Unseen[string](why),
	}
}

func another(obj *unstructured.Unstructured, uid string) string {
	return fmt.Sprintf("%s is another object: its UID is %s, not %s", title(obj), obj.GetUID(), uid)
}

// find takes a route apart as it was admitted; the risks were allowed then.
func (r *Routes) find(obj *unstructured.Unstructured, tracks [2]Backend, ref release.RouteRef) (Split, error) {
	return Find(obj, Want{Tracks: tracks, Rules: ref.Rules, Domain: r.cfg.Domain})
}

// get reads a route live. What is missing is an error of kind ErrNotFound.
func (r *Routes) get(ctx context.Context, ref release.RouteRef) (kind, *unstructured.Unstructured, error) {
	k, ok := kindOf(ref.Kind)
	if !ok {
		return k, nil, fmt.Errorf("%w: kind %q cannot be shifted", release.ErrRefused, ref.Kind)
	}
	ctx, cancel, err := kube.Within(ctx, r.cfg.Timeout)
	if err != nil {
		return k, nil, err
	}
	defer cancel()
	obj, err := r.client.Resource(k.resource).Namespace(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if kube.NotServed(err) {
		return k, nil, fmt.Errorf("%w: %w", release.ErrNotFound, unknownKind{k})
	}
	if err == nil { // no mirror shows an older one from now on
		r.mirrors.Floor(selection(k, ref), obj.GetResourceVersion())
	}
	return k, obj, kube.Explain(err)
}

// unknownKind is a kind that the cluster does not serve.
type unknownKind struct{ kind kind }

// Error implements error.
func (e unknownKind) Error() string {
	return fmt.Sprintf("the cluster does not serve %s (%s): %s", e.kind.name, e.kind.resource.GroupVersion(), e.kind.install)
}

// SetShare writes the weights of one route, with the fence, in one patch that
// the API server takes only if everything is as the action expects.
func (r *Routes) SetShare(ctx context.Context, a release.SetShare, f release.Fence) (release.Receipt, error) {
	obj, err := r.write(ctx, a.Route, a.UID, func(obj *unstructured.Unstructured) (Patch, error) {
		return r.sharePatch(obj, a, f)
	})
	if err != nil {
		return release.Receipt{}, fmt.Errorf("%s: %w", a, err)
	}
	return release.Receipt{At: time.Now(), Generation: obj.GetGeneration()}, nil
}

func (r *Routes) sharePatch(obj *unstructured.Unstructured, a release.SetShare, f release.Fence) (Patch, error) {
	tracks, ok := r.remembered(a.UID)
	if !ok {
		return nil, fmt.Errorf("%w: the route was not read before", release.ErrConflict)
	}
	split, err := r.find(obj, tracks, a.Route)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", release.ErrConflict, err)
	}
	p, err := split.SetShare(a.To, f)
	if err != nil {
		return nil, err
	}
	for i, has := range split.Pairs() {
		if i >= len(a.From) || a.From[i] != has {
			return nil, fmt.Errorf("%w: the weights in rule %s are %d/%d", release.ErrConflict, split.Rules()[i], has.Primary, has.Canary)
		}
	}
	return p, nil
}

// Mark sets or clears the in-progress label, with the fence. Another release's
// label is a conflict.
func (r *Routes) Mark(ctx context.Context, a release.Mark, f release.Fence) error {
	_, err := r.write(ctx, a.Route, a.UID, func(obj *unstructured.Unstructured) (Patch, error) {
		return mark(obj, a.On, f)
	})
	if err != nil {
		return fmt.Errorf("%s: %w", a, err)
	}
	return nil
}

// write reads the route live, asks for the patch, and sends it; an empty patch is
// not sent. The patch is tried once: whoever is told of a conflict looks again.
func (r *Routes) write(ctx context.Context, ref release.RouteRef, uid string, edit func(*unstructured.Unstructured) (Patch, error)) (*unstructured.Unstructured, error) {
	k, obj, err := r.get(ctx, ref)
	if err != nil {
		return nil, err
	}
	if string(obj.GetUID()) != uid {
		return nil, fmt.Errorf("%w: %s", release.ErrNotFound, another(obj, uid))
	}
	p, err := edit(obj)
	if err != nil || len(p) == 0 {
		return obj, err
	}
	body, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("writing the patch out: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	obj, err = r.client.Resource(k.resource).Namespace(ref.Namespace).Patch(ctx, ref.Name, types.JSONPatchType, body,
		metav1.PatchOptions{FieldManager: Manager, FieldValidation: metav1.FieldValidationStrict})
	if err != nil { // it may have been taken, or the route is not as it looked
		r.mirrors.Doubt(selection(k, ref))
		return nil, kube.ExplainWrite(err)
	}
	r.mirrors.Floor(selection(k, ref), obj.GetResourceVersion())
	return obj, nil
}
