package routing

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/shifter-dev/shifter/internal/release"
)

// MarkPatch makes the patch of a mark, for the golden files.
var MarkPatch = mark

// State reads all that a route says beside its split.
func State(obj *unstructured.Unstructured) {
	k, _ := kindOf(obj.GetKind())
	_, _ = epoch(obj)
	marked(obj, release.Key{Namespace: "demo", Name: "r1"})
	foreign(obj, k.rules)
	acceptance(obj, k)
}

// Acceptance is what the controllers say of a route.
func Acceptance(obj *unstructured.Unstructured) (release.Acceptance, string) {
	k, _ := kindOf(obj.GetKind())
	return acceptance(obj, k)
}

// Foreign is who else last wrote the rules.
var Foreign = foreign
