package store

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/shifter-dev/shifter/internal/release"
)

// This file says what the ConfigMaps look like, and nothing of how they are
// reached.

const (
	manager = "shifter"

	managedBy = "app.kubernetes.io/managed-by"
	kindLabel = "shifter.dev/kind"
	// keyAnnotation names the release, also where the record cannot be read.
	keyAnnotation = "shifter.dev/release"
	// sinceAnnotation says since when a draft is one.
	sinceAnnotation = "shifter.dev/since"

	recordData = "record.json"
	maxName    = 253
)

// The values of kindLabel. A draft is a record that has not got its locks yet:
// it holds the name of a release that is not there so far.
const (
	kindRelease = "release"
	kindDraft   = "draft"
	kindLocks   = "locks"
	kindEpoch   = "epoch"
)

func newConfigMap(namespace, name, kind string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{
			"namespace": namespace, "name": name,
			"labels": map[string]any{managedBy: manager, kindLabel: kind},
		},
	}}
}

// written is a copy that has a text, and the labels of its kind. What others
// wrote on it stays.
func written(o *unstructured.Unstructured, kind, name, text string) *unstructured.Unstructured {
	o = o.DeepCopy()
	labels := maps.Clone(o.GetLabels())
	if labels == nil {
		labels = map[string]string{}
	}
	labels[managedBy], labels[kindLabel] = manager, kind
	o.SetLabels(labels)
	data, ok := o.Object["data"].(map[string]any)
	if !ok {
		data = map[string]any{}
		o.Object["data"] = data
	}
	data[name] = text
	return o
}

// annotated is the object with an annotation, or without it where the value is
// empty. It changes the object.
func annotated(o *unstructured.Unstructured, name, value string) *unstructured.Unstructured {
	all := maps.Clone(o.GetAnnotations())
	if all == nil {
		all = map[string]string{}
	}
	all[name] = value
	if value == "" {
		delete(all, name)
	}
	o.SetAnnotations(all)
	return o
}

// dataOf is one text of a ConfigMap, empty where there is none.
func dataOf(o *unstructured.Unstructured, name string) string {
	s, _, _ := unstructured.NestedString(o.Object, "data", name)
	return s
}

func isDraft(o *unstructured.Unstructured) bool { return o.GetLabels()[kindLabel] == kindDraft }

func versionOf(o *unstructured.Unstructured) release.Version {
	return release.Version(o.GetResourceVersion())
}

// recordName is the name of a release's ConfigMap. People read the release in it;
// the hash tells a/b-c from a-b/c, and names apart that are too long to be told
// in full.
func recordName(k release.Key) string {
	sum := sha256.Sum256([]byte(k.String()))
	hash := "-" + hex.EncodeToString(sum[:6])
	name := "shifter-release-" + plain(k.Namespace) + "-" + plain(k.Name)
	return name[:min(len(name), maxName-len(hash))] + hash
}

// plain makes a part of a ConfigMap's name of anything.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '-'
	}, s)
}

// keyOf names the release of a ConfigMap: the one that the annotation tells, or
// else the record. It must be the one that the ConfigMap's own name stands for,
// so that a copy of a record is none.
func keyOf(o *unstructured.Unstructured) (release.Key, bool) {
	var k release.Key
	var ok bool
	if k.Namespace, k.Name, ok = strings.Cut(o.GetAnnotations()[keyAnnotation], "/"); ok && recordName(k) == o.GetName() {
		return k, true
	}
	var d struct {
		Release struct {
			Key release.Key `json:"key"`
		} `json:"release"`
	}
	if err := json.Unmarshal([]byte(dataOf(o, recordData)), &d); err != nil {
		return release.Key{}, false
	}
	return d.Release.Key, recordName(d.Release.Key) == o.GetName()
}
