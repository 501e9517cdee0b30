package lease

import (
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// The names of what a Lease says.
const (
	holderField      = "holderIdentity"
	durationField    = "leaseDurationSeconds"
	transitionsField = "leaseTransitions"
	acquiredField    = "acquireTime"
	renewedField     = "renewTime"
)

// unreadable stands for a holder that is no name.
const unreadable = "(unreadable)"

func specOf(o *unstructured.Unstructured) map[string]any {
	spec, _, _ := unstructured.NestedMap(o.Object, "spec")
	return spec
}

// holderOf returns who holds a Lease, empty when nobody does.
func holderOf(o *unstructured.Unstructured) string {
	switch h := specOf(o)[holderField].(type) {
	case nil:
		return ""
	case string:
		return h
	}
	return unreadable
}

// next is a Lease as its holder writes it; nobody holds one with an empty name.
// The times in it are for people.
func next(was *unstructured.Unstructured, holder string, d time.Duration, now time.Time) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": leases.GroupVersion().String(), "kind": "Lease"}}
	old := map[string]any{}
	if was != nil {
		o, old = was.DeepCopy(), specOf(was)
	}
	stamp := now.UTC().Format(metav1.RFC3339Micro)
	acquired, _ := old[acquiredField].(string)
	transitions, _ := old[transitionsField].(int64)
	switch {
	case holder != "" && old[holderField] != holder:
		acquired = stamp
		if was != nil {
			transitions++
		}
	case acquired == "":
		acquired = stamp
	}
	seconds := int64(max(d.Round(time.Second)/time.Second, 1))
	if holder == "" {
		seconds = 1
	}
	o.Object["spec"] = map[string]any{
		holderField: holder, durationField: seconds, transitionsField: max(transitions, 0),
		acquiredField: acquired, renewedField: stamp,
	}
	return o
}

// longest bounds what a Lease may say of its own duration: a hand that wrote too
// much there keeps nobody away for longer.
const longest = time.Minute

// witness remembers since when a Lease has looked as it does, by the clock of this
// process.
type witness struct {
	spec  map[string]any
	since time.Time
	lasts time.Duration
}

// over looks at a Lease that somebody holds, and says whether it has run out: it
// has not changed for its duration, or for this process's own where that is
// longer.
func (w *witness) over(o *unstructured.Unstructured, own time.Duration) bool {
	spec := specOf(o)
	if w.since.IsZero() || !reflect.DeepEqual(spec, w.spec) {
		said, _ := spec[durationField].(int64)
		theirs := time.Duration(min(said, int64(longest/time.Second))) * time.Second
		w.spec, w.since, w.lasts = spec, time.Now(), max(own, theirs)
		return false
	}
	return time.Since(w.since) >= w.lasts
}

// left is the time until the Lease runs out, if it stays as it is.
func (w *witness) left() time.Duration {
	if d := w.lasts - time.Since(w.since); !w.since.IsZero() && d > 0 {
		return d
	}
	return longest
}
