package routing_test

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kjson "k8s.io/apimachinery/pkg/util/json"

	"github.com/shifter-dev/shifter/internal/release"
	"github.com/shifter-dev/shifter/internal/routing"
)

func applies(t testing.TB, o *unstructured.Unstructured, p routing.Patch) bool {
	t.Helper()
	doc, err := json.Marshal(o.Object)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	decoded, err := jsonpatch.DecodePatch(raw)
	if err != nil {
		t.Fatal(err)
	}
	_, err = decoded.Apply(doc)
	return err == nil
}

// FuzzFind reads anything. What is found can be moved, and is then where it
// should be.
func FuzzFind(f *testing.F) {
	files, err := filepath.Glob("testdata/*.in.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		_, in := read(f, file)
		f.Add(in)
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		var o map[string]any
		if err := kjson.Unmarshal(in, &o); err != nil {
			return
		}
		obj := &unstructured.Unstructured{Object: o}
		for _, want := range []routing.Want{
			{Tracks: [2]routing.Backend{{Namespace: "demo", Service: "app-stable"}, {Namespace: "demo", Service: "app-canary", Port: 80}}},
			{Tracks: [2]routing.Backend{{Namespace: "demo", Service: "app", Subset: "v1"}, {Namespace: "demo", Service: "app", Subset: "v2"}}, Rules: []string{"live"}},
		} {
			routing.State(obj)
			s, err := routing.Find(obj, want)
			if err != nil {
				continue
			}
			_ = s.Refuse(func(release.Allow) bool { return false })
			var to []release.Pair
			for _, p := range s.Pairs() {
				to = append(to, p.At(release.Canary, 25))
			}
			patch, err := s.SetShare(to, fence())
			if err != nil || !applies(t, obj, patch) {
				continue
			}
			doc, err := json.Marshal(o)
			if err != nil {
				t.Fatal(err)
			}
			s, err = routing.Find(object(t, apply(t, doc, patch)), want)
			if err != nil || !slices.Equal(s.Pairs(), to) {
				t.Fatalf("the split is %v, %v, want %v", s.Pairs(), err, to)
			}
		}
	})
}
