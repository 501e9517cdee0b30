package workload

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/shifter-dev/shifter/internal/release"
)

// SetTemplate gives a Deployment the template of one of its own ReplicaSets, by
// hash; a rolling update follows. A live template equal to To means done; one
// that is neither From nor To is a conflict, so that doing it twice never goes
// to and fro.
func (w *Workloads) SetTemplate(ctx context.Context, a release.SetTemplate) error {
	err := w.edit(ctx, a.UID, func(d deployment, sets func() ([]replicaSet, error)) ([]op, error) {
		owned, err := sets()
		if err != nil {
			return nil, err
		}
		target, err := d.target(owned, a)
		if err != nil || target == nil {
			return nil, err
		}
		return undoPatch(d, *target), nil
	})
	if err != nil {
		return fmt.Errorf("%s: %w", a, err)
	}
	return nil
}

// target is the set whose template the Deployment is to get, nil when it has it.
func (d deployment) target(sets []replicaSet, a release.SetTemplate) (*replicaSet, error) {
	live, err := d.liveHash(sets)
	switch {
	case err != nil:
		return nil, err
	case live == a.To.Hash:
		return nil, nil
	case live != a.From.Hash:
		return nil, fmt.Errorf("%w: the live template is %s", release.ErrConflict, live)
	}
	i := slices.IndexFunc(sets, func(s replicaSet) bool {
		return s.hash() == a.To.Hash && (a.To.UID == "" || a.To.UID == string(s.Metadata.UID))
	})
	if i < 0 {
		return nil, fmt.Errorf("%w: no ReplicaSet of the Deployment has template %s %s", release.ErrNotFound, a.To.Hash, a.To.UID)
	}
	if err := d.rolls(); err != nil {
		return nil, err
	}
	return &sets[i], nil
}

// op is one operation of a JSON Patch.
type op struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// undoPatch gives the Deployment the set's template, if nothing at all has
// changed since it was read.
func undoPatch(d deployment, to replicaSet) []op {
	ops := append(d.untouched(), op{"replace", "/spec/template", to.template.bare()})
	return append(ops, undoAnnotations(d.Metadata.Annotations, to.Metadata.Annotations)...)
}

const changeCause = "kubernetes.io/change-cause"

// undoAnnotations brings back the annotations that the set was made with, as
// `kubectl rollout undo` does, but for those that say where the Deployment is
// now, and ours. Unlike kubectl it takes none away that others have put on since;
// only the cause of the change that is undone would be a lie.
func undoAnnotations(has, back map[string]string) []op {
	var out []op
	path := func(k string) string {
		return "/metadata/annotations/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(k)
	}
	for _, k := range sortedKeys(back) {
		if v, ok := has[k]; !staysAsItIs(k) && (!ok || v != back[k]) {
			out = append(out, op{"add", path(k), back[k]})
		}
	}
	if _, ok := back[changeCause]; !ok && has[changeCause] != "" {
		out = append(out, op{Op: "remove", Path: path(changeCause)})
	}
	if has == nil && len(out) > 0 {
		out = append([]op{{"add", "/metadata/annotations", map[string]string{}}}, out...)
	}
	return out
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// staysAsItIs reports an annotation that an undo leaves to the Deployment.
func staysAsItIs(key string) bool {
	switch key {
	case "kubectl.kubernetes.io/last-applied-configuration", "deprecated.deployment.rollback.to":
		return true
	}
	return strings.HasPrefix(key, "deployment.kubernetes.io/") || strings.HasPrefix(key, "shifter.dev/")
}
