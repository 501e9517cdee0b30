package sandbox

import (
	"cmp"
	"slices"
	"time"

	"github.com/shifter-dev/shifter/internal/release"
)

// deployment is a Deployment with what its controller keeps. The cluster's lock
// guards it.
type deployment struct {
	track    release.Track
	name     string
	uid      string
	replicas int
	template podTemplate
	spare    map[string]bool // pods that go last in a scale-down
	sets     []*replicaSet
	pods     []*pod // every pod that is not gone, in the order of birth
}

// replicaSet is one template of a Deployment's history.
type replicaSet struct {
	uid      string
	hash     string
	template podTemplate
	revision int64
	desired  int
	created  time.Time
}

func newReplicaSet(t podTemplate) *replicaSet {
	return &replicaSet{uid: newUID(), hash: t.hash(), template: t, created: time.Now()}
}

func (s *replicaSet) asTemplate() release.Template {
	return release.Template{
		Hash:     s.hash,
		UID:      s.uid,
		Revision: s.revision,
		Images:   map[string]string{container: s.template.Image},
	}
}

// live returns the ReplicaSet of the Deployment's template. A template that was
// there before gets its old ReplicaSet back, with a new and higher revision, as
// `kubectl rollout undo` shows it.
func (d *deployment) live() *replicaSet {
	hash := d.template.hash()
	var live *replicaSet
	var newest int64
	for _, s := range d.sets {
		if s.hash == hash {
			live = s
		} else {
			newest = max(newest, s.revision)
		}
	}
	if live == nil {
		live = newReplicaSet(d.template)
		d.sets = append(d.sets, live)
	}
	live.revision = max(live.revision, newest+1)
	return live
}

// history lists the ReplicaSets, newest first.
func (d *deployment) history() []*replicaSet {
	d.live()
	sets := slices.Clone(d.sets)
	slices.SortFunc(sets, func(a, b *replicaSet) int { return cmp.Compare(b.revision, a.revision) })
	return sets
}

// undoTo is the newest older template, nil when there is none.
func (d *deployment) undoTo() *replicaSet {
	if h := d.history(); len(h) > 1 {
		return h[1]
	}
	return nil
}

// of lists a ReplicaSet's pods that are not terminating.
func (d *deployment) of(s *replicaSet) []*pod {
	return slices.DeleteFunc(slices.Clone(d.pods), func(p *pod) bool { return p.set != s || p.leaving })
}

func (d *deployment) readyOf(s *replicaSet) int {
	n := 0
	for _, p := range d.of(s) {
		if p.ready {
			n++
		}
	}
	return n
}

// The rolling update's bounds: one pod more at most, none less.
const maxSurge = 1

// roll takes one step towards the template and the size, as the Deployment
// controller does it, and reports whether there was one to take. It only sets
// what each ReplicaSet wants.
func (d *deployment) roll() bool {
	live := d.live()
	return d.growLive(live) || d.shrinkOld(live)
}

func (d *deployment) growLive(live *replicaSet) bool {
	if live.desired > d.replicas {
		live.desired = d.replicas
		return true
	}
	n := min(d.replicas+maxSurge-d.wanted(), d.replicas-live.desired)
	if n <= 0 {
		return false
	}
	live.desired += n
	return true
}

// shrinkOld takes pods from older ReplicaSets: first those that serve nobody,
// then as many as the live ones have replaced.
func (d *deployment) shrinkOld(live *replicaSet) bool {
	useless := d.wanted() - d.replicas - (live.desired - d.readyOf(live))
	spareReady := -d.replicas
	for _, s := range d.sets {
		spareReady += d.readyOf(s)
	}
	did := false
	for _, s := range d.sets {
		if s == live || s.desired == 0 {
			continue
		}
		if n := min(useless, s.desired-d.readyOf(s)); n > 0 {
			s.desired, useless, did = s.desired-n, useless-n, true
			continue
		}
		if n := min(spareReady, s.desired); n > 0 {
			s.desired, spareReady, did = s.desired-n, spareReady-n, true
		}
	}
	return did
}

func (d *deployment) wanted() int {
	n := 0
	for _, s := range d.sets {
		n += s.desired
	}
	return n
}

// victims lists the pods that go when a ReplicaSet has too many: not ready
// ones first, spare ones last, newest first among equals.
func (d *deployment) victims(s *replicaSet) []*pod {
	pods := d.of(s)
	n := len(pods) - s.desired
	if n <= 0 {
		return nil
	}
	slices.SortFunc(pods, func(a, b *pod) int {
		return cmp.Or(
			compareBool(a.ready, b.ready),
			compareBool(d.spare[a.name], d.spare[b.name]),
			cmp.Compare(b.number, a.number),
		)
	})
	return pods[:n]
}

// compareBool puts false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	default:
		return 1
	}
}
