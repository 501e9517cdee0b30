package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/shifter-dev/shifter/internal/release"
)

// Memory keeps the documents in the process. It is safe for concurrent use. It
// does not outlive the process: real leadership needs a store that does.
type Memory struct {
	hub *hub

	mu    sync.Mutex
	files map[release.Key]file
	// locks names the holder of each lock of a release that has not ended. It is
	// an index of the documents, kept up with every write.
	locks map[string]release.Key
	// writes counts the writes; a file's version is the count at its own.
	writes uint64
	epoch  uint64
}

type file struct {
	data    []byte
	version uint64
	locks   []string
}

// NewMemory makes an empty store.
func NewMemory() *Memory {
	return &Memory{hub: newHub(), files: map[release.Key]file{}, locks: map[string]release.Key{}}
}

// Create writes the first record of a release. It refuses a name that was ever
// used, and a lock of the binding that another release holds, with a *Taken.
func (m *Memory) Create(ctx context.Context, r release.Release) error {
	if err := ctx.Err(); err != nil {
		return unavailable("create", r.Key, err)
	}
	r.Revision = 1
	data, err := encode(document{Release: r})
	if err != nil {
		return err
	}
	if err := m.create(r, data); err != nil {
		return err
	}
	m.hub.tell(r.Key)
	return nil
}

func (m *Memory) create(r release.Release, data []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.files[r.Key]; ok {
		return &Taken{Holder: r.Key}
	}
	for _, l := range r.Binding.Locks() {
		if h, ok := m.locks[l]; ok {
			return &Taken{Holder: h, Lock: l}
		}
	}
	m.put(r.Key, data, held(r))
	return nil
}

// Load reads a record. A record that cannot be understood is a *Corrupt that
// names it.
func (m *Memory) Load(ctx context.Context, k release.Key) (release.Record, error) {
	if err := ctx.Err(); err != nil {
		return release.Record{}, unavailable("load", k, err)
	}
	f, d, err := m.read(k)
	if err != nil {
		return release.Record{}, err
	}
	return release.Record{Release: d.Release, Inbox: d.Inbox, Version: f.mark()}, nil
}

// Save writes a release over the version, raises its revision by one and drops
// the commands that it has consumed. ErrConflict means that the record has
// moved on.
func (m *Memory) Save(ctx context.Context, r release.Release, v release.Version) (release.Version, error) {
	if err := ctx.Err(); err != nil {
		return "", unavailable("save", r.Key, err)
	}
	f, d, err := m.read(r.Key)
	if err != nil {
		return "", err
	}
	if f.mark() != v {
		return "", conflict("save", r.Key)
	}
	if d, err = d.next(r); err != nil {
		return "", err
	}
	data, err := encode(d)
	if err != nil {
		return "", err
	}
	next, ok := m.swap(r.Key, f.version, data, held(r))
	if !ok {
		return "", conflict("save", r.Key)
	}
	return next, nil
}

// Append puts a command into a release's inbox and gives it its number, which
// rises by one with every command of the release. It refuses when the release
// has ended, with an *Ended.
func (m *Memory) Append(ctx context.Context, k release.Key, c release.Command) (release.Command, error) {
	for {
		if err := ctx.Err(); err != nil {
			return release.Command{}, unavailable("append to", k, err)
		}
		f, d, err := m.read(k)
		if err != nil {
			return release.Command{}, err
		}
		d, numbered, err := d.with(c)
		if err != nil {
			return release.Command{}, err
		}
		data, err := encode(d)
		if err != nil {
			return release.Command{}, err
		}
		// Who loses the swap lost it to a write that was made, so this ends.
		if _, ok := m.swap(k, f.version, data, f.locks); ok {
			m.hub.tell(k)
			return numbered, nil
		}
	}
}

// List names every record, the unreadable ones too, in order.
func (m *Memory) List(ctx context.Context) ([]release.Key, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("list the releases: %w: %w", release.ErrUnavailable, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]release.Key, 0, len(m.files))
	for k := range m.files {
		out = append(out, k)
	}
	slices.SortFunc(out, inOrder)
	return out, nil
}

// inOrder compares keys by their namespaces, then by their names.
func inOrder(a, b release.Key) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

// Watch sends the key of every release that is created or sent a command, once
// for any number of changes that the receiver has not taken yet. What the
// engine saves is not told, since the engine is the one that watches. A writer
// never waits for a watcher. The channel is closed when ctx ends.
func (m *Memory) Watch(ctx context.Context) (<-chan release.Key, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("watch the releases: %w: %w", release.ErrUnavailable, err)
	}
	return m.hub.watch(ctx, m.hub.join()), nil
}

// NextEpoch gives a number above every one that it gave before.
func (m *Memory) NextEpoch(ctx context.Context) (uint64, error) {
	if err := ctx.Err(); err != nil {
		return 0, fmt.Errorf("raise the epoch: %w: %w", release.ErrUnavailable, err)
	}
	return m.moveEpoch(following)
}

// RaiseEpoch gives an epoch above another one, if own is still the last that was
// given: else another writer has taken over, and it is release.ErrFenced. Where
// own is above it already, own is returned and nothing changes.
func (m *Memory) RaiseEpoch(ctx context.Context, own, above uint64) (uint64, error) {
	if err := ctx.Err(); err != nil {
		return 0, fmt.Errorf("raise the epoch: %w: %w", release.ErrUnavailable, err)
	}
	return m.moveEpoch(raising(own, above))
}

func (m *Memory) moveEpoch(move func(last uint64) (uint64, error)) (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	next, err := move(m.epoch)
	if err != nil {
		return 0, fmt.Errorf("raise the epoch: %w", err)
	}
	m.epoch = next
	return next, nil
}

func (m *Memory) read(k release.Key) (file, document, error) {
	m.mu.Lock()
	f, ok := m.files[k]
	m.mu.Unlock()
	if !ok {
		return file{}, document{}, fmt.Errorf("release %s: %w", k, release.ErrNotFound)
	}
	d, err := decode(k, f.data)
	return f, d, err
}

// swap writes a document over a version, and says whether it was still that one.
func (m *Memory) swap(k release.Key, was uint64, data []byte, locks []string) (release.Version, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.files[k].version != was {
		return "", false
	}
	return m.put(k, data, locks), true
}

// put writes a document and moves its locks; the mutex is held.
func (m *Memory) put(k release.Key, data []byte, locks []string) release.Version {
	for _, l := range m.files[k].locks {
		delete(m.locks, l)
	}
	for _, l := range locks {
		m.locks[l] = k
	}
	m.writes++
	f := file{data: data, version: m.writes, locks: locks}
	m.files[k] = f
	return f.mark()
}

func (f file) mark() release.Version { return release.Version(strconv.FormatUint(f.version, 10)) }

// held returns the locks that a release has: none once it has ended.
func held(r release.Release) []string {
	if r.Phase.Terminal() {
		return nil
	}
	return r.Binding.Locks()
}

func unavailable(do string, k release.Key, err error) error {
	return fmt.Errorf("%s release %s: %w: %w", do, k, release.ErrUnavailable, err)
}

func conflict(do string, k release.Key) error {
	return fmt.Errorf("%s release %s: the record has moved on: %w", do, k, release.ErrConflict)
}
