package store

import (
	"sync"

	"github.com/shifter-dev/shifter/internal/release"
)

// echoes tells a watch's events that are this process's own writes from those of
// others. An event may come before the answer to the write that it tells of, so
// one that comes while writes of its record are under way waits for them, and is
// an echo if one of them made its version. Whatever is not known to be an echo
// is told: a write without an answer costs a needless look, never a command.
type echoes struct {
	mu     sync.Mutex
	flying map[release.Key]map[*flight]bool
	// made are the versions that came of the last own writes, in a ring.
	made map[version]bool
	ring []version
	next int
}

// version is one version of one record.
type version struct {
	key     release.Key
	version release.Version
}

// flight is a write under way, with the events that wait for its answer.
type flight struct {
	key   release.Key
	heard []*sound
}

// sound is an event that may be an echo, and how many answers it waits for.
type sound struct {
	version release.Version
	waits   int
	own     bool
	tell    func()
}

// maxMade bounds how far a watch may be behind the writes before their echoes
// are told.
const maxMade = 1024

func newEchoes() *echoes {
	return &echoes{flying: map[release.Key]map[*flight]bool{}, made: map[version]bool{}, ring: make([]version, maxMade)}
}

// begin says that a write of a record is about to be sent.
func (e *echoes) begin(k release.Key) *flight {
	e.mu.Lock()
	defer e.mu.Unlock()
	f := &flight{key: k}
	if e.flying[k] == nil {
		e.flying[k] = map[*flight]bool{}
	}
	e.flying[k][f] = true
	return f
}

// end says which version came of the write, or none when that is not known, and
// tells what has waited in vain.
func (e *echoes) end(f *flight, made release.Version) {
	e.mu.Lock()
	delete(e.flying[f.key], f)
	if len(e.flying[f.key]) == 0 {
		delete(e.flying, f.key)
	}
	if made != "" {
		v := version{f.key, made}
		delete(e.made, e.ring[e.next])
		e.ring[e.next], e.made[v] = v, true
		e.next = (e.next + 1) % len(e.ring)
	}
	var tell []func()
	for _, s := range f.heard {
		s.waits--
		s.own = s.own || made != "" && s.version == made
		if s.waits == 0 && !s.own {
			tell = append(tell, s.tell)
		}
	}
	e.mu.Unlock()
	for _, t := range tell {
		t()
	}
}

// hear takes an event of a record, and tells it unless it is an echo.
func (e *echoes) hear(k release.Key, v release.Version, tell func()) {
	e.mu.Lock()
	if e.made[version{k, v}] {
		e.mu.Unlock()
		return
	}
	n := len(e.flying[k])
	s := &sound{version: v, waits: n, tell: tell}
	for f := range e.flying[k] {
		f.heard = append(f.heard, s)
	}
	e.mu.Unlock()
	if n == 0 {
		tell()
	}
}
