package store

import "github.com/shifter-dev/shifter/internal/release"

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
