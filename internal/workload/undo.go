package workload

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shifter-dev/shifter/internal/kube"
	"github.com/shifter-dev/shifter/internal/release"
)

// SetTemplate gives a Deployment the template of one of its own ReplicaSets, by
// hash; a rolling update follows. A live template equal to To means done; one
// that is neither From nor To is a conflict, so that doing it twice never goes
// to and fro.
func (w *Workloads) SetTemplate(ctx context.Context, a release.SetTemplate) error {
	if err := w.setTemplate(ctx, a); err != nil {
		return fmt.Errorf("%s: %w", a, err)
	}
	return nil
}

func (w *Workloads) setTemplate(ctx context.Context, a release.SetTemplate) error {
	n, err := w.named(a.UID)
	if err != nil {
		return err
	}
	live := source{w: w}
	obj, _, err := live.one(ctx, n)
	if err != nil {
		return err
	}
	if string(obj.GetUID()) != a.UID {
		return fmt.Errorf("%w: %s", release.ErrNotFound, another(n, obj, a.UID))
	}
	d, err := readDeployment(obj)
	if err != nil {
		return err
	}
	sets, err := live.owned(ctx, d)
	if err != nil {
		return err
	}
	target, err := d.target(sets, a)
	if err != nil || target == nil {
		return err
	}
	body, err := json.Marshal(undoPatch(d, *target))
	if err != nil {
		return fmt.Errorf("writing the patch out: %w", err)
	}
	ctx, cancel, err := kube.Within(ctx, w.cfg.Timeout)
	if err != nil {
		return err
	}
	defer cancel()
	obj, err = w.in(deployments, n.namespace).Patch(ctx, n.deployment, types.JSONPatchType, body,
		metav1.PatchOptions{FieldManager: Manager, FieldValidation: metav1.FieldValidationStrict})
	if err != nil { // it may have been taken, or the Deployment is not as it looked
		w.mirrors.Doubt(ofName(n))
		return fmt.Errorf("patching %s: %w", n, kube.ExplainWrite(err))
	}
	w.mirrors.Floor(ofName(n), obj.GetResourceVersion())
	return nil
}

// target is the set whose template the Deployment is to get, nil when it has it.
func (d deployment) target(sets []replicaSet, a release.SetTemplate) (*replicaSet, error) {
	live, known := d.live(sets)
	switch {
	case !known:
		return nil, fmt.Errorf("%w: the Deployment controller has not made the ReplicaSet of the live template yet", release.ErrConflict)
	case live.hash() == a.To.Hash:
		return nil, nil
	case live.hash() != a.From.Hash:
		return nil, fmt.Errorf("%w: the live template is %s", release.ErrConflict, live.hash())
	}
	i := slices.IndexFunc(sets, func(s replicaSet) bool {
		return s.hash() == a.To.Hash && (a.To.UID == "" || a.To.UID == string(s.Metadata.UID))
	})
	switch {
	case i < 0:
		return nil, fmt.Errorf("%w: no ReplicaSet of the Deployment has template %s %s", release.ErrNotFound, a.To.Hash, a.To.UID)
	case d.Spec.Paused:
		return nil, fmt.Errorf("%w: the Deployment is paused, so no rollout would follow; resume it first (kubectl rollout resume deployment/%s -n %s)",
			release.ErrRefused, d.Metadata.Name, d.Metadata.Namespace)
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
	return append([]op{
		{"test", "/metadata/uid", d.Metadata.UID},
		{"test", "/metadata/resourceVersion", d.Metadata.ResourceVersion},
		{"replace", "/spec/template", to.template.bare()},
	}, undoAnnotations(d.Metadata.Annotations, to.Metadata.Annotations)...)
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
