package workload

import (
	"context"
	"fmt"
	"math"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shifter-dev/shifter/internal/kube"
	"github.com/shifter-dev/shifter/internal/release"
)

// Scale sets a Deployment's replicas through its scale subresource, if nobody
// has changed the Deployment since it was read for it, and nobody its size since it
// was looked at. Replicas that are as
// wanted are not written. When pods have to go, those named as spare go last.
func (w *Workloads) Scale(ctx context.Context, a release.Scale) error {
	if err := w.scale(ctx, a); err != nil {
		return fmt.Errorf("%s: %w", a, err)
	}
	return nil
}

func (w *Workloads) scale(ctx context.Context, a release.Scale) error {
	if a.Replicas < 0 || a.Replicas > math.MaxInt32 {
		return fmt.Errorf("%w: %d is no number of replicas", release.ErrRefused, a.Replicas)
	}
	n, err := w.named(a.UID)
	if err != nil {
		return err
	}
	ctx, cancel, err := kube.Within(ctx, w.cfg.Timeout)
	if err != nil {
		return err
	}
	defer cancel()
	api := w.in(deployments, n.namespace)
	shown, mirrored := w.shown(ctx, n, a.UID)
	obj, err := api.Get(ctx, n.deployment, metav1.GetOptions{}, "scale")
	if err != nil {
		return fmt.Errorf("reading the scale of %s: %w", n, kube.Explain(err))
	}
	if string(obj.GetUID()) != a.UID {
		return fmt.Errorf("%w: %s", release.ErrNotFound, another(n, obj, a.UID))
	}
	w.mirrors.Floor(ofName(n), obj.GetResourceVersion())                    // the Deployment's own
	has, _, err := unstructured.NestedInt64(obj.Object, "spec", "replicas") // absent is 0
	if err != nil {
		return fmt.Errorf("reading the scale of %s: %w", n, err)
	}
	switch {
	case has == int64(a.Replicas):
		return nil
	case mirrored && has != shown:
		return fmt.Errorf("%w: %s has %d replicas, and the look before showed %d", release.ErrConflict, n, has, shown)
	}
	if has > int64(a.Replicas) {
		w.spare(ctx, n.namespace, a.Spare)
	}
	if err := unstructured.SetNestedField(obj.Object, int64(a.Replicas), "spec", "replicas"); err != nil {
		return fmt.Errorf("writing the scale of %s: %w", n, err)
	}
	obj, err = api.Update(ctx, obj, metav1.UpdateOptions{FieldManager: Manager}, "scale")
	if err != nil { // it may have been taken, or the Deployment is not as it looked
		w.mirrors.Doubt(ofName(n))
		return fmt.Errorf("writing the scale of %s: %w", n, kube.ExplainWrite(err))
	}
	w.mirrors.Floor(ofName(n), obj.GetResourceVersion())
	return nil
}

// shown is the size that a Deployment's mirror shows now. If another one is read
// live, the action was decided on a mirror that lagged.
func (w *Workloads) shown(ctx context.Context, n name, uid string) (replicas int64, mirrored bool) {
	seen, current := w.mirrors.Read(ctx, ofName(n), time.Now())
	if !current || len(seen.Objects) == 0 || string(seen.Objects[0].GetUID()) != uid {
		return 0, false
	}
	d, err := readDeployment(seen.Objects[0])
	return int64(d.replicas()), err == nil
}

// spare asks the ReplicaSet controller to take other pods first. It is a wish:
// pods that are not ready go before any, and a pod that cannot be marked is not
// worth keeping the size for.
func (w *Workloads) spare(ctx context.Context, namespace string, names []string) {
	const cost = `{"metadata":{"annotations":{"controller.kubernetes.io/pod-deletion-cost":"100"}}}`
	for _, name := range names {
		_, err := w.in(pods, namespace).Patch(ctx, name, types.MergePatchType, []byte(cost), metav1.PatchOptions{FieldManager: Manager})
		if err != nil {
			w.cfg.Logger.Debug("a pod could not be marked to go last", "pod", namespace+"/"+name, "err", err)
		}
	}
}

// SetFloor is refused: a track with an autoscaler is not admitted.
func (w *Workloads) SetFloor(_ context.Context, a release.SetFloor) error {
	return fmt.Errorf("%s: %w: autoscalers are not steered by this version", a, release.ErrRefused)
}
