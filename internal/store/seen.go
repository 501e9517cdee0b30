package store

import (
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/shifter-dev/shifter/internal/release"
)

// seen keeps the last version that was seen of each record, so that a write over
// that version need not read it first. It may be behind: that the version is
// still the present one is proved by the write itself. What is kept is never
// changed. It holds what has not ended, and no more than maxSeen of it.
type seen struct {
	mu  sync.Mutex
	all map[release.Key]*unstructured.Unstructured
}

const maxSeen = 256

func (s *seen) keep(k release.Key, o *unstructured.Unstructured) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.all[k]; !ok && len(s.all) >= maxSeen {
		for other := range s.all {
			delete(s.all, other)
			break
		}
	}
	s.all[k] = o
}

func (s *seen) get(k release.Key) *unstructured.Unstructured {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[k]
}

// drop forgets a record, unless another version than this one is kept by now;
// nil means whatever is kept.
func (s *seen) drop(k release.Key, o *unstructured.Unstructured) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o == nil || s.all[k] == o {
		delete(s.all, k)
	}
}
