package store

import (
	"time"

	"github.com/shifter-dev/shifter/internal/release"
)

// The names and bounds that tests look for.
const (
	LocksName = locksName
	EpochName = epochName
	Grace     = grace
	PageSize  = pageSize
	MaxSeen   = maxSeen
)

// RecordName is the name of a release's ConfigMap.
func RecordName(k release.Key) string { return recordName(k) }

// SetClock puts another clock in the place of time.Now.
func (s *ConfigMaps) SetClock(now func() time.Time) { s.now = now }

// Seen counts the records that are kept to write over.
func (s *ConfigMaps) Seen() int {
	s.seen.mu.Lock()
	defer s.seen.mu.Unlock()
	return len(s.seen.all)
}

// Reencode reads a record and writes it anew.
func Reencode(k release.Key, data []byte) ([]byte, error) {
	d, err := decode(k, data)
	if err != nil {
		return nil, err
	}
	return encode(d)
}

// Encode writes a record.
func Encode(r release.Release, inbox []release.Command, seq uint64) ([]byte, error) {
	return encode(document{Release: r, Inbox: inbox, Seq: seq})
}

// PutRaw writes bytes where a record lies, as a bug or another hand would.
func (m *Memory) PutRaw(k release.Key, data []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.put(k, data, m.files[k].locks)
}

// GetRaw returns the bytes of a record.
func (m *Memory) GetRaw(k release.Key) []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.files[k].data
}

// Echoes is how a store knows its own writes again.
type Echoes = echoes

// NewEchoes makes one.
func NewEchoes() *Echoes { return newEchoes() }

// Begin, End and Hear are its three calls.
func (e *echoes) Begin(k release.Key) *flight                        { return e.begin(k) }
func (e *echoes) End(f *flight, made release.Version)                { e.end(f, made) }
func (e *echoes) Hear(k release.Key, v release.Version, tell func()) { e.hear(k, v, tell) }

// MaxMade is how many versions it knows.
const MaxMade = maxMade
