package store

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/shifter-dev/shifter/internal/release"
)

// MaxRecord bounds a whole document. MaxInbox is what waiting
// commands may take of it; the rest is the release's own, so that a flood of
// commands never keeps the engine from saving.
const (
	MaxRecord  = 64 << 10
	MaxInbox   = 8 << 10
	maxRelease = MaxRecord - MaxInbox - 1<<10 // less the document's own fields
)

// document is a record as it is kept.
type document struct {
	Schema  int               `json:"schema"`
	Release release.Release   `json:"release"`
	Inbox   []release.Command `json:"inbox,omitempty"`
	// Seq is the number of the last command ever appended; it outlives the
	// commands.
	Seq uint64 `json:"seq,omitempty"`
}

// encode writes a document. It refuses one that is too large or that JSON cannot
// hold (a NaN), since that is a fault that no second try repairs.
func encode(d document) ([]byte, error) {
	d.Schema = release.Schema
	body, err := json.Marshal(d.Release)
	if err != nil {
		return nil, fmt.Errorf("encode release %s: %w: %w", d.Release.Key, release.ErrRefused, err)
	}
	if len(body) > maxRelease {
		return nil, fmt.Errorf("release %s takes %d bytes, and a record has room for %d: %w",
			d.Release.Key, len(body), maxRelease, release.ErrRefused)
	}
	return json.Marshal(envelope{Schema: d.Schema, Release: body, Inbox: d.Inbox, Seq: d.Seq})
}

// envelope is a document whose release is not decoded yet.
type envelope struct {
	Schema  int               `json:"schema"`
	Release json.RawMessage   `json:"release"`
	Inbox   []release.Command `json:"inbox,omitempty"`
	Seq     uint64            `json:"seq,omitempty"`
}

// decode reads the document kept under a key. Whatever it cannot fully
// understand is a *Corrupt.
func decode(k release.Key, data []byte) (document, error) {
	bad := func(err error) (document, error) { return document{}, &Corrupt{Key: k, Cause: err} }
	var e envelope
	if err := json.Unmarshal(data, &e); err != nil {
		return bad(err)
	}
	if e.Schema != release.Schema {
		return bad(fmt.Errorf("schema %d is not known to this version, which writes %d", e.Schema, release.Schema))
	}
	d := document{Schema: e.Schema, Inbox: e.Inbox, Seq: e.Seq}
	if err := json.Unmarshal(e.Release, &d.Release); err != nil {
		return bad(err)
	}
	switch r := d.Release; {
	case r.Schema != release.Schema:
		return bad(fmt.Errorf("the release's schema %d is not known to this version, which writes %d", r.Schema, release.Schema))
	case r.Key != k:
		return bad(fmt.Errorf("it is the record of release %s", r.Key))
	case !slices.Contains(release.Phases(), r.Phase):
		return bad(fmt.Errorf("phase %q is not known to this version", r.Phase))
	}
	return d, nil
}

// next is the document after the engine saved a release over it.
func (d document) next(r release.Release) (document, error) {
	switch {
	case d.Release.Phase.Terminal():
		return d, &Ended{Key: d.Release.Key, Phase: d.Release.Phase}
	case d.Release.UID != r.UID:
		return d, fmt.Errorf("save release %s: the record is of another one by UID: %w", r.Key, release.ErrRefused)
	}
	r.Revision = d.Release.Revision + 1
	d.Release = r
	d.Inbox = slices.DeleteFunc(slices.Clone(d.Inbox), func(c release.Command) bool { return c.Seq <= r.Consumed })
	return d, nil
}

// with is the document with one more command.
func (d document) with(c release.Command) (document, release.Command, error) {
	k := d.Release.Key
	if d.Release.Phase.Terminal() {
		return d, c, &Ended{Key: k, Phase: d.Release.Phase}
	}
	d.Seq++
	c.Seq = d.Seq
	d.Inbox = append(slices.Clone(d.Inbox), c)
	b, err := json.Marshal(d.Inbox)
	if err != nil {
		return d, c, fmt.Errorf("append to release %s: %w", k, err)
	}
	if len(b) > MaxInbox {
		return d, c, fmt.Errorf("append to release %s: %d commands wait already, and there is no room for more: %w",
			k, len(d.Inbox)-1, release.ErrRefused)
	}
	return d, c, nil
}
