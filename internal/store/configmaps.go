package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/shifter-dev/shifter/internal/release"
)

// ConfigMapsConfig says where the records lie.
type ConfigMapsConfig struct {
	// Namespace is shifter's own. It must be there.
	Namespace string
	// Timeout bounds each request, within its caller's deadline; zero means 10 s.
	Timeout time.Duration
	// Logger is told of what is not worth an error; nil discards.
	Logger *slog.Logger
}

// ConfigMaps keeps the documents in a cluster, one ConfigMap a release. Many
// processes may use the same namespace at once, and each of them from many
// goroutines. Every write names the resource version that it was made over, and
// the API server takes it only over that one.
//
// Beside the records there are two more ConfigMaps: shifter-locks, see Create, and
// shifter-epoch, see NextEpoch.
type ConfigMaps struct {
	calls  calls
	log    *slog.Logger
	now    func() time.Time
	hub    *hub
	echoes *echoes
	seen   seen
}

// NewConfigMaps makes a store on a client. It asks nothing yet.
func NewConfigMaps(client dynamic.Interface, cfg ConfigMapsConfig) *ConfigMaps {
	if cfg.Timeout <= 0 {
		cfg.Timeout = 10 * time.Second
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &ConfigMaps{
		calls: newCalls(client, cfg.Namespace, cfg.Timeout), log: cfg.Logger, now: time.Now,
		hub: newHub(), echoes: newEchoes(), seen: seen{all: map[release.Key]*unstructured.Unstructured{}},
	}
}

// kept is a record as it was found: the ConfigMap, which is never changed, and
// the document in it.
type kept struct {
	object *unstructured.Unstructured
	document
}

// Load reads a record. One that cannot be understood is a *Corrupt that names it.
func (s *ConfigMaps) Load(ctx context.Context, k release.Key) (release.Record, error) {
	f, err := s.read(ctx, "load", k)
	if err != nil {
		return release.Record{}, err
	}
	return release.Record{Release: f.Release, Inbox: f.Inbox, Version: versionOf(f.object)}, nil
}

// Save writes a release over the version, raises its revision by one and drops
// the commands that it has consumed. ErrConflict means that the record has moved
// on; after an ErrUnavailable it may have been written. It takes one request if
// this process has seen the version.
func (s *ConfigMaps) Save(ctx context.Context, r release.Release, v release.Version) (release.Version, error) {
	if err := ctx.Err(); err != nil {
		return "", unavailable("save", r.Key, err)
	}
	f, err := s.at(ctx, r.Key, v)
	if err != nil {
		return "", err
	}
	d, err := f.next(r)
	if err != nil {
		return "", err
	}
	o, err := s.put(ctx, r.Key, f.object, d)
	switch {
	case errors.Is(err, release.ErrConflict):
		return "", conflict("save", r.Key)
	case err != nil:
		return "", fmt.Errorf("save release %s: %w", r.Key, err)
	}
	return versionOf(o), nil
}

// Append puts a command into a release's inbox and gives it its number, which
// rises by one with every command of the release. It refuses when the release
// has ended, with an *Ended. Who loses against another write tries again until
// ctx ends. After an ErrUnavailable the command may be in the inbox.
func (s *ConfigMaps) Append(ctx context.Context, k release.Key, c release.Command) (release.Command, error) {
	for try := 0; ; try++ {
		if err := ctx.Err(); err != nil {
			return release.Command{}, unavailable("append to", k, err)
		}
		f, fresh, err := s.latest(ctx, k)
		if err != nil {
			return release.Command{}, err
		}
		d, numbered, err := f.with(c)
		switch {
		case err != nil && !fresh:
			s.seen.drop(k, f.object) // it may be another's room by now: look
			continue
		case err != nil:
			return release.Command{}, err
		}
		_, err = s.put(ctx, k, f.object, d)
		switch {
		case err == nil:
			s.hub.tell(k)
			return numbered, nil
		case !errors.Is(err, release.ErrConflict):
			return release.Command{}, fmt.Errorf("append to release %s: %w", k, err)
		}
		if err := pause(ctx, try); err != nil {
			return release.Command{}, fmt.Errorf("append to release %s: %w", k, err)
		}
	}
}

// List names every record, the unreadable ones too, in order.
func (s *ConfigMaps) List(ctx context.Context) ([]release.Key, error) {
	keys := map[release.Key]bool{}
	err := s.calls.each(ctx, kindLabel+"="+kindRelease, func(o *unstructured.Unstructured) {
		if k, ok := s.named(o); ok {
			keys[k] = true
		}
	})
	if err != nil {
		return nil, fmt.Errorf("list the releases: %w", err)
	}
	return slices.SortedFunc(maps.Keys(keys), inOrder), nil
}

// named is keyOf, and says so where a ConfigMap is labelled as what it is not.
func (s *ConfigMaps) named(o *unstructured.Unstructured) (release.Key, bool) {
	k, ok := keyOf(o)
	if !ok {
		s.log.Warn("a ConfigMap is labelled as a release's record and is none", "namespace", o.GetNamespace(), "name", o.GetName())
	}
	return k, ok
}

// at finds a record at a version, without a request if that one was seen.
func (s *ConfigMaps) at(ctx context.Context, k release.Key, v release.Version) (kept, error) {
	if o := s.seen.get(k); o != nil && versionOf(o) == v {
		d, err := decode(k, []byte(dataOf(o, recordData)))
		return kept{o, d}, err
	}
	f, err := s.read(ctx, "save", k)
	if err == nil && versionOf(f.object) != v {
		err = conflict("save", k)
	}
	return f, err
}

// latest finds a record as it was seen last, and reads it where it was not.
func (s *ConfigMaps) latest(ctx context.Context, k release.Key) (f kept, fresh bool, err error) {
	if o := s.seen.get(k); o != nil {
		d, err := decode(k, []byte(dataOf(o, recordData)))
		return kept{o, d}, false, err
	}
	f, err = s.read(ctx, "append to", k)
	return f, true, err
}

// read reads a record, and keeps what has not ended.
func (s *ConfigMaps) read(ctx context.Context, do string, k release.Key) (kept, error) {
	o, err := s.calls.get(ctx, recordName(k))
	switch {
	case err == nil && isDraft(o), errors.Is(err, release.ErrNotFound):
		s.seen.drop(k, nil)
		return kept{}, fmt.Errorf("release %s: %w", k, release.ErrNotFound)
	case err != nil:
		return kept{}, fmt.Errorf("%s release %s: %w", do, k, err)
	}
	d, err := decode(k, []byte(dataOf(o, recordData)))
	if err != nil || d.Release.Phase.Terminal() {
		s.seen.drop(k, nil)
		return kept{o, d}, err
	}
	s.seen.keep(k, o)
	return kept{o, d}, nil
}

// put writes a document over the version that its ConfigMap has.
func (s *ConfigMaps) put(ctx context.Context, k release.Key, over *unstructured.Unstructured, d document) (*unstructured.Unstructured, error) {
	data, err := encode(d)
	if err != nil {
		return nil, err
	}
	o, err := s.update(ctx, k, written(over, kindRelease, recordData, string(data)))
	if err != nil || d.Release.Phase.Terminal() {
		s.seen.drop(k, over)
		return o, err
	}
	s.seen.keep(k, o)
	return o, nil
}

// update sends a write of a record, whose echo is then known.
func (s *ConfigMaps) update(ctx context.Context, k release.Key, o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	f := s.echoes.begin(k)
	var made release.Version
	defer func() { s.echoes.end(f, made) }()
	next, err := s.calls.update(ctx, o)
	if err != nil {
		return nil, err
	}
	made = versionOf(next)
	return next, nil
}
