package routing_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"

	"github.com/shifter-dev/shifter/internal/kubetest"
	"github.com/shifter-dev/shifter/internal/release"
	"github.com/shifter-dev/shifter/internal/routing"
)

// onlyOursDiffers fails when a patch changed anything but weights and what we
// write beside them.
func onlyOursDiffers(t testing.TB, before, after []byte) {
	t.Helper()
	a, b := object(t, before), object(t, after)
	for _, o := range []*unstructured.Unstructured{a, b} {
		strip(o.Object)
		for _, in := range []string{"annotations", "labels"} {
			m, _, _ := unstructured.NestedMap(o.Object, "metadata", in)
			for k := range m {
				if strings.HasPrefix(k, "shifter.dev/") {
					delete(m, k)
				}
			}
			unstructured.RemoveNestedField(o.Object, "metadata", in)
			if len(m) > 0 {
				if err := unstructured.SetNestedMap(o.Object, m, "metadata", in); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if !equality.Semantic.DeepEqual(a.Object, b.Object) {
		t.Fatalf("more than the weights differs:\n%s\nbecame\n%s", before, after)
	}
}

// strip removes every weight, wherever it stands.
func strip(v any) {
	switch v := v.(type) {
	case map[string]any:
		delete(v, "weight")
		for _, x := range v {
			strip(x)
		}
	case []any:
		for _, x := range v {
			strip(x)
		}
	}
}

// weights lists every weight of a route by the path of its backend.
func weights(o *unstructured.Unstructured, list, backends string) map[string]any {
	out := map[string]any{}
	rules, _, _ := unstructured.NestedSlice(o.Object, "spec", list)
	for i := range rules {
		refs, _, _ := unstructured.NestedSlice(kubetest.In(rules, i), backends)
		for j := range refs {
			out[fmt.Sprintf("/spec/%s/%d/%s/%d", list, i, backends, j)] = kubetest.In(refs, j)["weight"]
		}
	}
	return out
}

var tracks = [2]routing.Backend{{Namespace: "demo", Service: "p", Port: 80}, {Namespace: "demo", Service: "c", Port: 80}}

// drawRoute makes a route in which rules hold any of the tracks and others, with
// and without weights, filters, names and annotations.
func drawRoute(t *rapid.T) (o *unstructured.Unstructured, list, backends string) {
	istio := rapid.Bool().Draw(t, "istio")
	o = &unstructured.Unstructured{Object: map[string]any{"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute"}}
	list, backends = "rules", "backendRefs"
	if istio {
		o.Object = map[string]any{"apiVersion": "networking.istio.io/v1", "kind": "VirtualService"}
		list, backends = "http", "route"
	}
	meta := map[string]any{"name": "app", "namespace": "demo", "uid": "u", "generation": int64(3)}
	for _, in := range []string{"annotations", "labels"} {
		if rapid.Bool().Draw(t, in) {
			m := map[string]any{}
			for _, k := range rapid.SliceOfDistinct(rapid.SampledFrom([]string{"a/b", "x~y", routing.StepAnnotation, "z"}), rapid.ID).Draw(t, in+" keys") {
				m[k] = rapid.StringN(0, 5, -1).Draw(t, "value")
			}
			meta[in] = m
		}
	}
	if a, ok := meta["annotations"].(map[string]any); ok && rapid.Bool().Draw(t, "fenced") {
		a[routing.EpochAnnotation] = fmt.Sprint(rapid.IntRange(0, 7).Draw(t, "epoch"))
	}
	var rules []any
	for i := range rapid.IntRange(1, 5).Draw(t, "rules") {
		r := map[string]any{"matches": []any{map[string]any{"path": rapid.String().Draw(t, "path")}}}
		if rapid.Bool().Draw(t, "named") {
			r["name"] = fmt.Sprintf("rule-%d", i)
		}
		services := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"p", "c", "other", "third"}), 1, 4, rapid.ID).Draw(t, "backends")
		var refs []any
		for _, s := range services {
			ref := map[string]any{"name": s, "port": int64(80), "filters": []any{map[string]any{"type": "X"}}}
			if istio {
				ref = map[string]any{"destination": map[string]any{"host": s, "port": map[string]any{"number": int64(80)}}, "headers": map[string]any{"a": "b"}}
			}
			if rapid.Bool().Draw(t, "weighted") {
				ref["weight"] = rapid.Int64Range(0, 200).Draw(t, "weight")
			}
			refs = append(refs, ref)
		}
		r[backends] = refs
		rules = append(rules, r)
	}
	o.Object["metadata"] = meta
	o.Object["spec"] = map[string]any{list: rules, "more": rapid.String().Draw(t, "more")}
	return o, list, backends
}

// TestAPatchChangesThePairsWeightsAndNothingElse is invariant I1, for any route.
func TestAPatchChangesThePairsWeightsAndNothingElse(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		o, list, backends := drawRoute(rt)
		before, err := json.Marshal(o.Object)
		if err != nil {
			rt.Fatal(err)
		}
		s, err := routing.Find(o, routing.Want{Tracks: tracks})
		if err != nil {
			return // no rule has both
		}
		var to []release.Pair
		for _, p := range s.Pairs() {
			if p.Sum() == 0 {
				return
			}
			to = append(to, p.At(release.Canary, rapid.Float64Range(0, 100).Draw(rt, "share")))
		}
		patch, err := s.SetShare(to, fence())
		if err != nil {
			rt.Fatalf("%v for %s", err, before)
		}
		after := apply(t, before, patch)
		if got, err := json.Marshal(o.Object); err != nil || string(got) != string(before) {
			rt.Fatalf("the object that was read was changed: %s", got)
		}
		onlyOursDiffers(t, before, after)

		s, err = routing.Find(object(t, after), routing.Want{Tracks: tracks})
		if err != nil || !slices.Equal(s.Pairs(), to) {
			rt.Fatalf("the split is %v, %v, want %v", s.Pairs(), err, to)
		}
		changed := 0
		was, is := weights(object(t, before), list, backends), weights(object(t, after), list, backends)
		for at, w := range is {
			if was[at] != w {
				changed++
				if w == nil {
					rt.Fatalf("%s has no weight any more", at)
				}
			}
		}
		if changed > 2*len(to) {
			rt.Fatalf("%d weights changed for %d pairs: %v became %v", changed, len(to), was, is)
		}
	})
}

// TestAPatchIsRefusedOnceWhatItReliesOnHasChanged applies a patch to a route that
// somebody else has changed in between.
func TestAPatchIsRefusedOnceWhatItReliesOnHasChanged(t *testing.T) {
	_, in := read(t, "testdata/the-fence-of-an-earlier-release-is-replaced.in.yaml")
	q, _ := read(t, "testdata/the-fence-of-an-earlier-release-is-replaced.in.yaml")
	rule := func(o map[string]any) map[string]any {
		return kubetest.In(o, "spec", "rules", 0)
	}
	ref := func(o map[string]any, i int) map[string]any {
		return kubetest.In(rule(o), "backendRefs", i)
	}
	meta := func(o map[string]any) map[string]any { return kubetest.In(o, "metadata") }
	for name, change := range map[string]func(o map[string]any){
		"another weight":               func(o map[string]any) { ref(o, 1)["weight"] = int64(1) },
		"a weight taken off":           func(o map[string]any) { delete(ref(o, 0), "weight") },
		"another backend in the place": func(o map[string]any) { ref(o, 0)["name"] = "other" },
		"another port":                 func(o map[string]any) { ref(o, 0)["port"] = int64(81) },
		"another namespace":            func(o map[string]any) { ref(o, 0)["namespace"] = "else" },
		"backends in another order":    func(o map[string]any) { slices.Reverse(kubetest.Items(rule(o), "backendRefs")) },
		"another object of the name":   func(o map[string]any) { meta(o)["uid"] = "another" },
		"another writer's epoch":       func(o map[string]any) { kubetest.In(meta(o), "annotations")[routing.EpochAnnotation] = "9" },
		"no annotations":               func(o map[string]any) { delete(meta(o), "annotations") },
		"a rule before":                func(o map[string]any) { kubetest.In(o, "spec")["rules"] = []any{map[string]any{}, rule(o)} },
	} {
		t.Run(name, func(t *testing.T) {
			patch, _, err := answer(q, object(t, in))
			if err != nil {
				t.Fatal(err)
			}
			o := object(t, in)
			change(o.Object)
			if applies(t, o, patch) {
				t.Error("the patch was taken")
			}
		})
	}
	t.Run("what it does not rely on may change", func(t *testing.T) {
		patch, _, err := answer(q, object(t, in))
		if err != nil {
			t.Fatal(err)
		}
		o := object(t, in)
		rule(o.Object)["timeouts"] = map[string]any{"request": "3s"}
		meta(o.Object)["labels"] = map[string]any{"a": "b"}
		if !applies(t, o, patch) {
			t.Error("the patch was refused")
		}
	})
}
