package workload

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shifter-dev/shifter/internal/kube"
	"github.com/shifter-dev/shifter/internal/release"
)

// edit reads a Deployment live, asks for the patch, and sends it, once; an empty
// patch is not sent. sets reads the ReplicaSets live, where the patch depends on
// them.
func (w *Workloads) edit(ctx context.Context, uid string, patch func(d deployment, sets func() ([]replicaSet, error)) ([]op, error)) error {
	n, err := w.named(uid)
	if err != nil {
		return err
	}
	live := source{w: w}
	obj, _, err := live.one(ctx, n)
	if err != nil {
		return err
	}
	if string(obj.GetUID()) != uid {
		return fmt.Errorf("%w: %s", release.ErrNotFound, another(n, obj, uid))
	}
	d, err := readDeployment(obj)
	if err != nil {
		return err
	}
	ops, err := patch(d, func() ([]replicaSet, error) { return live.owned(ctx, d) })
	if err != nil || len(ops) == 0 {
		return err
	}
	return w.send(ctx, n, ops)
}

func (w *Workloads) send(ctx context.Context, n name, ops []op) error {
	body, err := json.Marshal(ops)
	if err != nil {
		return fmt.Errorf("writing the patch out: %w", err)
	}
	ctx, cancel, err := kube.Within(ctx, w.cfg.Timeout)
	if err != nil {
		return err
	}
	defer cancel()
	obj, err := w.in(deployments, n.namespace).Patch(ctx, n.deployment, types.JSONPatchType, body,
		metav1.PatchOptions{FieldManager: Manager, FieldValidation: metav1.FieldValidationStrict})
	if err != nil { // it may have been taken, or the Deployment is not as it looked
		w.mirrors.Doubt(ofName(n))
		return fmt.Errorf("patching %s: %w", n, kube.ExplainWrite(err))
	}
	w.mirrors.Floor(ofName(n), obj.GetResourceVersion())
	return nil
}

// untouched guards a patch: nothing at all has changed since the Deployment was
// read.
func (d deployment) untouched() []op {
	return []op{{"test", "/metadata/uid", d.Metadata.UID}, {"test", "/metadata/resourceVersion", d.Metadata.ResourceVersion}}
}

// liveHash is the hash of the live template.
func (d deployment) liveHash(sets []replicaSet) (string, error) {
	live, known := d.live(sets)
	if !known {
		return "", fmt.Errorf("%w: the Deployment controller has not made the ReplicaSet of the live template yet", release.ErrConflict)
	}
	return live.hash(), nil
}

// rolls refuses a Deployment that would not follow a new template.
func (d deployment) rolls() error {
	if !d.Spec.Paused {
		return nil
	}
	return fmt.Errorf("%w: the Deployment is paused, so no rollout would follow; resume it first (kubectl rollout resume deployment/%s -n %s)",
		release.ErrRefused, d.Metadata.Name, d.Metadata.Namespace)
}
