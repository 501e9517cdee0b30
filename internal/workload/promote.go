package workload

import (
	"context"
	"fmt"
	"strings"

	"github.com/shifter-dev/shifter/internal/release"
)

// Promote gives containers of a Deployment other images, by name; a rolling update
// follows, and with it a new revision. A live template that has the images means
// done; one that is not From is a conflict. Nothing else of the template is
// written.
func (w *Workloads) Promote(ctx context.Context, a release.Promote) error {
	err := w.edit(ctx, a.UID, func(d deployment, sets func() ([]replicaSet, error)) ([]op, error) {
		ops, err := d.imagePatch(a.Images)
		if err != nil || len(ops) == 0 {
			return nil, err
		}
		owned, err := sets()
		if err != nil {
			return nil, err
		}
		return ops, d.promotable(owned, a)
	})
	if err != nil {
		return fmt.Errorf("%s: %w", a, err)
	}
	return nil
}

// promotable reports a Deployment that has the expected template, and would roll.
func (d deployment) promotable(sets []replicaSet, a release.Promote) error {
	live, err := d.liveHash(sets)
	switch {
	case err != nil:
		return err
	case live != a.From.Hash:
		return fmt.Errorf("%w: the live template is %s", release.ErrConflict, live)
	}
	return d.rolls()
}

// imagePatch sets the images that differ, each guarded by the container's name and
// its old image, if nothing at all has changed since the Deployment was read. It
// is empty where all are as wanted.
func (d deployment) imagePatch(want map[string]string) ([]op, error) {
	out := d.untouched()
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
