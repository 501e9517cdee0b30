package workload

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shifter-dev/shifter/internal/kube"
	"github.com/shifter-dev/shifter/internal/release"
)

// Promote gives containers of a Deployment other images, by name; a rolling update
// follows, and with it a new revision. A live template that has the images means
// done; one that is not From is a conflict. Nothing else of the template is
// written.
func (w *Workloads) Promote(ctx context.Context, a release.Promote) error {
	if err := w.promote(ctx, a); err != nil {
		return fmt.Errorf("%s: %w", a, err)
	}
	return nil
}

func (w *Workloads) promote(ctx context.Context, a release.Promote) error {
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
	ops, err := d.imagePatch(a.Images)
	if err != nil || len(ops) == 0 {
		return err
	}
	sets, err := live.owned(ctx, d)
	if err != nil {
		return err
	}
	if err := d.promotable(sets, a); err != nil {
		return err
	}
	body, err := json.Marshal(ops)
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

// promotable reports a Deployment that has the expected template, and would roll.
func (d deployment) promotable(sets []replicaSet, a release.Promote) error {
	live, known := d.live(sets)
	switch {
	case !known:
		return fmt.Errorf("%w: the Deployment controller has not made the ReplicaSet of the live template yet", release.ErrConflict)
	case live.hash() != a.From.Hash:
		return fmt.Errorf("%w: the live template is %s", release.ErrConflict, live.hash())
	case d.Spec.Paused:
		return fmt.Errorf("%w: the Deployment is paused, so no rollout would follow; resume it first (kubectl rollout resume deployment/%s -n %s)",
			release.ErrRefused, d.Metadata.Name, d.Metadata.Namespace)
	}
	return nil
}

// imagePatch sets the images that differ, each guarded by the container's name and
// its old image, if nothing at all has changed since the Deployment was read. It
// is empty where all are as wanted.
func (d deployment) imagePatch(want map[string]string) ([]op, error) {
	out := []op{{"test", "/metadata/uid", d.Metadata.UID}, {"test", "/metadata/resourceVersion", d.Metadata.ResourceVersion}}
	guards, found := len(out), 0
	for _, list := range containerLists() {
		for i, c := range d.template.containers(list) {
			image, wanted := want[c.name]
			if !wanted {
				continue
			}
			found++
			if image == c.image {
				continue
			}
			at := fmt.Sprintf("/spec/template/spec/%s/%d", list, i)
			out = append(out, op{"test", at + "/name", c.name}, op{"test", at + "/image", c.image}, op{"replace", at + "/image", image})
		}
	}
	if found != len(want) {
		return nil, fmt.Errorf("%w: the template has not all of the containers %s", release.ErrRefused, strings.Join(sortedKeys(want), ", "))
	}
	if len(out) == guards {
		return nil, nil
	}
	return out, nil
}

// containerLists are where a pod template keeps containers.
func containerLists() []string { return []string{"initContainers", "containers"} }

// container is what is read of a container in a template.
type container struct {
	name, image string
	fields      map[string]any
}

func (t podTemplate) containers(list string) []container {
	spec, _ := t["spec"].(map[string]any)
	items, _ := spec[list].([]any)
	out := make([]container, 0, len(items))
	for _, item := range items {
		fields, _ := item.(map[string]any)
		c := container{fields: fields}
		c.name, _ = fields["name"].(string)
		c.image, _ = fields["image"].(string)
		out = append(out, c)
	}
	return out
}
