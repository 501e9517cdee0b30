package workload

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/shifter-dev/shifter/internal/release"
)

// Promotable looks whether the primary can take over the canary's images: then
// nothing else but labels may differ, the Deployment must keep the revision that
// an undo leads to, and we must be allowed to write it. What does not fit comes
// back as release.Finding, joined.
func (w *Workloads) Promotable(ctx context.Context, b release.Binding) error {
	if err := w.promotableTo(ctx, b); err != nil {
		return fmt.Errorf("looking whether the primary can be promoted: %w", err)
	}
	return nil
}

func (w *Workloads) promotableTo(ctx context.Context, b release.Binding) error {
	var found []error
	find := func(code, fix, format string, args ...any) {
		found = append(found, release.Finding{Pointer: "/primary/deployment", Code: code, Fix: fix, Message: fmt.Sprintf(format, args...)})
	}
	var both [2]deployment
	for t, bound := range b.Tracks {
		n := name{bound.Namespace, bound.Deployment}
		obj, _, err := source{w: w}.one(ctx, n)
		if err != nil {
			return err
		}
		if string(obj.GetUID()) != bound.UID {
			return fmt.Errorf("%w: %s", release.ErrConflict, another(n, obj, bound.UID))
		}
		if both[t], err = readDeployment(obj); err != nil {
			return err
		}
	}
	p := both[release.Primary]
	n := name{p.Metadata.Namespace, p.Metadata.Name}
	if differ := p.template.differences(both[release.Canary].template); len(differ) > 0 {
		find("templatesDiffer", "make the templates of both Deployments the same but for images and labels, or promote in the pipeline and run the other stages here",
			"a promote takes over images only, and the pod templates differ in more: %s", strings.Join(differ, "; "))
	}
	if l := p.Spec.RevisionHistoryLimit; l != nil && *l == 0 {
		find("noHistory", "set revisionHistoryLimit above 0", "%s keeps no earlier revision (revisionHistoryLimit 0), so a promote could not be undone", n)
	}
	if denied, err := w.denied(ctx, n, "patch", ""); err != nil {
		return err
	} else if denied {
		find("forbidden", "grant shifter's service account patch on deployments in namespace "+n.namespace, "shifter has no right to change %s, so it can neither promote nor undo it", n)
	}
	return errors.Join(found...)
}

// differences names what two templates differ in, beside labels and the images of
// containers that both have.
func (t podTemplate) differences(o podTemplate) []string {
	var out []string
	for _, list := range containerLists() {
		out = append(out, containerDifferences(strings.TrimSuffix(list, "s"), t.containers(list), o.containers(list))...)
	}
	field := func(x map[string]any, of string) map[string]any {
		m, _ := x[of].(map[string]any)
		return m
	}
	out = append(out, unequal("spec.", field(t, "spec"), field(o, "spec"), containerLists()...)...)
	return append(out, unequal("annotation ", field(field(t, "metadata"), "annotations"), field(field(o, "metadata"), "annotations"), restartedAnnotation)...)
}

func containerDifferences(what string, a, b []container) (out []string) {
	named := func(cs []container, name string) int {
		return slices.IndexFunc(cs, func(c container) bool { return c.name == name })
	}
	for _, c := range a {
		i := named(b, c.name)
		if i < 0 {
			out = append(out, fmt.Sprintf("%s %s, which only the primary has", what, c.name))
			continue
		}
		out = append(out, unequal(fmt.Sprintf("%s %s: ", what, c.name), c.fields, b[i].fields, "image")...)
	}
	for _, c := range b {
		if named(a, c.name) < 0 {
			out = append(out, fmt.Sprintf("%s %s, which only the canary has", what, c.name))
		}
	}
	return out
}

// unequal lists the keys under which two objects differ, but for some.
func unequal(prefix string, a, b map[string]any, but ...string) []string {
	keys := map[string]any{}
	maps.Copy(keys, a)
	maps.Copy(keys, b)
	var out []string
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		if !slices.Contains(but, k) && !reflect.DeepEqual(a[k], b[k]) {
			out = append(out, prefix+k)
		}
	}
	return out
}
