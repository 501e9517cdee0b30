package store_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/shifter-dev/shifter/internal/release"
	"github.com/shifter-dev/shifter/internal/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMemory(t *testing.T) {
	Contract(t, func(*testing.T) Bench {
		m := store.NewMemory()
		return Bench{
			Store: m,
			Put:   func(_ *testing.T, k release.Key, data []byte) { m.PutRaw(k, data) },
			Get:   func(_ *testing.T, k release.Key) []byte { return m.GetRaw(k) },
		}
	})
}
