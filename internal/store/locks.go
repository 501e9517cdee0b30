package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/shifter-dev/shifter/internal/release"
)

const (
	locksName = "shifter-locks"
	locksData = "locks.json"
	// maxLocks bounds the table, well below what a ConfigMap may have. It is a
	// few thousand locks.
	maxLocks = 512 << 10
	// prunes is how many holders beside those that matter a Create looks at, to
	// strike out what has ended.
	prunes = 4
	// grace is how long a draft is left to its creator.
	grace = time.Minute
)

// lockTable says which release has which lock. An entry holds as long as the
// release that it names is there, has not ended and has the lock in its binding;
// so nothing is written when a release ends, and what is dead is struck out by a
// later Create.
type lockTable struct {
	Schema int `json:"schema"`
	// Writes rises with every write. A PUT that changes nothing would leave the
	// version as it is, and that a version is still there is the proof that nobody
	// wrote in between.
	Writes uint64                 `json:"writes"`
	Locks  map[string]lockedSince `json:"locks"`

	// object is what it lies in, nil when that is not there.
	object *unstructured.Unstructured
}

type lockedSince struct {
	Holder release.Key `json:"holder"`
	Since  time.Time   `json:"since"` // for people; nothing depends on it
}

// Create writes the first record of a release. It refuses a name that was ever
// used, and a lock of the binding that another release holds, with a *Taken.
// After an ErrUnavailable the release may be there.
//
// The record is first written as a draft, which is no release for anybody; then
// its locks are entered into the table, over the version that was looked at; then
// the draft becomes the record. So there is never a release without its locks,
// and whoever finds a lock can see whether its holder is alive. The draft of a
// creator that died in between is in the way for a minute. After that whoever
// needs the lock or the name deletes it first, as it was seen: if its creator was
// only slow, either the deletion or the creator's last step fails, and no two
// releases have a lock however long a process sleeps and whatever its clock says.
//
// It takes four requests, one more for each holder that is in question, and up to
// four looks at other holders to keep the table small.
func (s *ConfigMaps) Create(ctx context.Context, r release.Release) error {
	if err := ctx.Err(); err != nil {
		return unavailable("create", r.Key, err)
	}
	r.Revision = 1
	data, err := encode(document{Release: r})
	if err != nil {
		return err
	}
	err = s.create(ctx, r, string(data))
	var taken *Taken
	switch {
	case errors.As(err, &taken):
		return err
	case err != nil:
		return fmt.Errorf("create release %s: %w", r.Key, err)
	}
	s.hub.tell(r.Key)
	return nil
}

func (s *ConfigMaps) create(ctx context.Context, r release.Release, data string) error {
	t, err := s.table(ctx)
	if err != nil {
		return err
	}
	if err := s.check(ctx, t, r); err != nil {
		return err
	}
	draft, err := s.draft(ctx, r, data)
	if err != nil {
		return err
	}
	if err := s.hold(ctx, t, r); err != nil {
		s.bury(ctx, draft)
		return err
	}
	return s.publish(ctx, r, draft)
}

// draft writes the record as a draft, and so takes the name.
func (s *ConfigMaps) draft(ctx context.Context, r release.Release, data string) (*unstructured.Unstructured, error) {
	o := written(newConfigMap(s.calls.namespace, recordName(r.Key), kindDraft), kindDraft, recordData, data)
	annotated(o, keyAnnotation, r.Key.String())
	annotated(o, sinceAnnotation, s.now().UTC().Format(time.RFC3339Nano))
	for try := 0; ; try++ {
		made, err := s.calls.create(ctx, o)
		if !errors.Is(err, release.ErrConflict) {
			return made, err
		}
		there, err := s.calls.get(ctx, o.GetName())
		switch {
		case errors.Is(err, release.ErrNotFound):
		case err != nil:
			return nil, err
		case isDraft(there) && of(there, r):
			return there, nil // the client sent it twice, and the first came through
		case !isDraft(there) || !s.stale(there):
			return nil, &Taken{Holder: r.Key}
		default:
			if err := s.calls.remove(ctx, there); err != nil && !errors.Is(err, release.ErrConflict) && !errors.Is(err, release.ErrNotFound) {
				return nil, err
			}
		}
		if err := pause(ctx, try); err != nil {
			return nil, err
		}
	}
}

// of reports whether a ConfigMap has the record of this very release.
func of(o *unstructured.Unstructured, r release.Release) bool {
	d, err := decode(r.Key, []byte(dataOf(o, recordData)))
	return err == nil && d.Release.UID == r.UID
}

// stale reports a draft whose creator has had its time. A time that cannot be
// read, or is far ahead, is nobody's.
func (s *ConfigMaps) stale(o *unstructured.Unstructured) bool {
	since, err := time.Parse(time.RFC3339Nano, o.GetAnnotations()[sinceAnnotation])
	return err != nil || s.now().Sub(since).Abs() > grace
}

// bury takes a draft away that came to nothing, also when ctx has ended. If it
// stays, it is stale in a minute.
func (s *ConfigMaps) bury(ctx context.Context, draft *unstructured.Unstructured) {
	if err := s.calls.remove(context.WithoutCancel(ctx), draft); err != nil {
		s.log.Debug("a draft stays behind", "name", draft.GetName(), "err", err)
	}
}

// hold enters the locks of a release that has its draft.
func (s *ConfigMaps) hold(ctx context.Context, t lockTable, r release.Release) error {
	s.prune(ctx, t, r.Key)
	for try := 0; ; try++ {
		for _, l := range r.Binding.Locks() {
			t.Locks[l] = lockedSince{Holder: r.Key, Since: s.now().UTC()}
		}
		err := s.putTable(ctx, t)
		// A table that was deleted is made anew.
		if !errors.Is(err, release.ErrConflict) && !errors.Is(err, release.ErrNotFound) {
			return err
		}
		if err := pause(ctx, try); err != nil {
			return err
		}
		if t, err = s.table(ctx); err != nil {
			return err
		}
		if err := s.check(ctx, t, r); err != nil {
			return err
		}
	}
}

// publish makes the draft the record.
func (s *ConfigMaps) publish(ctx context.Context, r release.Release, draft *unstructured.Unstructured) error {
	o := annotated(written(draft, kindRelease, recordData, dataOf(draft, recordData)), sinceAnnotation, "")
	made, err := s.update(ctx, r.Key, o)
	if errors.Is(err, release.ErrConflict) || errors.Is(err, release.ErrNotFound) {
		return s.published(ctx, r)
	}
	if err == nil && !r.Phase.Terminal() {
		s.seen.keep(r.Key, made)
	}
	return err
}

// published looks what became of a draft that is not as it was: the client may
// have sent the last step twice, and the first came through.
func (s *ConfigMaps) published(ctx context.Context, r release.Release) error {
	o, err := s.calls.get(ctx, recordName(r.Key))
	if err != nil || isDraft(o) || !of(o, r) {
		return fmt.Errorf("it took so long that another request gave it up, try again: %w", release.ErrUnavailable)
	}
	return nil
}

// table reads the table of locks. Where there is none it is made of the records
// and of the drafts, which may be about to become records.
func (s *ConfigMaps) table(ctx context.Context) (lockTable, error) {
	t := lockTable{Locks: map[string]lockedSince{}}
	o, err := s.calls.get(ctx, locksName)
	if err == nil {
		err = json.Unmarshal([]byte(dataOf(o, locksData)), &t)
		if err == nil && (t.Schema != release.Schema || t.Locks == nil) {
			err = fmt.Errorf("schema %d is not known to this version, which writes %d", t.Schema, release.Schema)
		}
		if err != nil {
			return t, fmt.Errorf("ConfigMap %s/%s does not hold the locks: %w; delete it, and it is made anew from the records", s.calls.namespace, locksName, err)
		}
		t.object = o
		return t, nil
	}
	if !errors.Is(err, release.ErrNotFound) {
		return t, err
	}
	return t, s.calls.each(ctx, fmt.Sprintf("%s in (%s,%s)", kindLabel, kindRelease, kindDraft), func(o *unstructured.Unstructured) {
		k, ok := s.named(o)
		if !ok {
			return
		}
		d, err := decode(k, []byte(dataOf(o, recordData)))
		if err != nil {
			s.log.Warn("the locks of a release are not known", "release", k.String(), "err", err)
			return
		}
		for _, l := range held(d.Release) {
			t.Locks[l] = lockedSince{Holder: k, Since: s.now().UTC()}
		}
	})
}

// putTable writes the table over the version that was read.
func (s *ConfigMaps) putTable(ctx context.Context, t lockTable) error {
	t.Schema, t.Writes = release.Schema, t.Writes+1
	data, err := json.Marshal(t)
	if err != nil {
		return fmt.Errorf("encode the locks: %w: %w", release.ErrRefused, err)
	}
	if len(data) > maxLocks {
		return fmt.Errorf("%d locks are held already, and there is no room for more: %w", len(t.Locks), release.ErrRefused)
	}
	if t.object == nil {
		o := newConfigMap(s.calls.namespace, locksName, kindLocks)
		_, err = s.calls.create(ctx, written(o, kindLocks, locksData, string(data)))
		return err
	}
	_, err = s.calls.update(ctx, written(t.object, kindLocks, locksData, string(data)))
	return err
}

// check refuses a release of which another holds a lock. An entry of its own name
// is no obstacle: whether the name is free is not decided here.
func (s *ConfigMaps) check(ctx context.Context, t lockTable, r release.Release) error {
	claims := map[release.Key]claim{}
	for _, l := range r.Binding.Locks() {
		e, ok := t.Locks[l]
		if !ok || e.Holder == r.Key {
			continue
		}
		c, ok := claims[e.Holder]
		if !ok {
			var err error
			if c, err = s.claim(ctx, e.Holder); err != nil {
				return err
			}
			claims[e.Holder] = c
		}
		if c.on(l) {
			return &Taken{Holder: e.Holder, Lock: l}
		}
	}
	return nil
}

// claim is what a holder needs of its locks.
type claim struct {
	locks []string
	// unknown says that its record cannot be read: it may need any.
	unknown bool
}

func (c claim) on(lock string) bool { return c.unknown || slices.Contains(c.locks, lock) }

// claim looks what a holder needs, and deletes a draft that is stale. That a
// holder needs nothing is for ever, or until its creator writes to the table: so
// whoever read the table before may write over what was read.
func (s *ConfigMaps) claim(ctx context.Context, k release.Key) (claim, error) {
	for {
		o, err := s.calls.get(ctx, recordName(k))
		switch {
		case errors.Is(err, release.ErrNotFound):
			return claim{}, nil
		case err != nil:
			return claim{}, err
		case isDraft(o) && s.stale(o):
			err := s.calls.remove(ctx, o)
			if errors.Is(err, release.ErrConflict) || errors.Is(err, release.ErrNotFound) {
				continue // it is no draft any more, or no more at all
			}
			return claim{}, err
		}
		d, err := decode(k, []byte(dataOf(o, recordData)))
		return claim{held(d.Release), err != nil}, nil
	}
}

// prune strikes out what a few holders do not need any more.
func (s *ConfigMaps) prune(ctx context.Context, t lockTable, but release.Key) {
	holders := map[release.Key]bool{}
	for _, e := range t.Locks {
		holders[e.Holder] = e.Holder != but
	}
	looks := prunes
	for k := range maps.Keys(holders) { // in no order, so that each has its turn
		if !holders[k] {
			continue
		}
		if looks--; looks < 0 {
			return
		}
		c, err := s.claim(ctx, k)
		if err != nil {
			s.log.Debug("a holder of locks was not looked at", "release", k.String(), "err", err)
			return
		}
		maps.DeleteFunc(t.Locks, func(l string, e lockedSince) bool { return e.Holder == k && !c.on(l) })
	}
}
