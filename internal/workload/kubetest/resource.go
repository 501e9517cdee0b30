package kubetest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kjson "k8s.io/apimachinery/pkg/util/json"
)

// place is where an object lies. Without a name it is a list; selector and field
// narrow it.
type place struct {
	schema.GroupVersionResource

	namespace, name string
	selector        string
}

// String is the key under which an object is kept.
func (p place) String() string {
	return fmt.Sprintf("%s %s/%s", p.GroupVersionResource.String(), p.namespace, p.name)
}

func (p place) covers(q place, o Object) bool {
	if p.GroupVersionResource != q.GroupVersionResource || p.namespace != q.namespace || p.name != "" && p.name != q.name {
		return false
	}
	sel, err := labels.Parse(p.selector)
	set := labels.Set{}
	have, _ := meta(o)["labels"].(Object)
	for k, v := range have {
		set[k] = text(v)
	}
	return err == nil && sel.Matches(set)
}

// parse reads a path of a namespaced resource, or of a review.
func parse(u *url.URL) (place, bool) {
	parts := strings.Split(strings.Trim(u.Path, "/"), "/")
	var p place
	switch {
	case len(parts) > 2 && parts[0] == "api":
		p.Version, parts = parts[1], parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		p.Group, p.Version, parts = parts[1], parts[2], parts[3:]
	default:
		return p, false
	}
	if len(parts) > 2 && parts[0] == "namespaces" {
		p.namespace, parts = parts[1], parts[2:]
	}
	p.Resource = parts[0]
	if len(parts) > 1 {
		p.name = parts[1]
	}
	q := u.Query()
	p.selector = q.Get("labelSelector")
	if name, ok := strings.CutPrefix(q.Get("fieldSelector"), "metadata.name="); ok {
		p.name = name
	}
	return p, len(parts) <= 2 || len(parts) == 3 && parts[2] == "scale"
}

func (s *Server) read(w http.ResponseWriter, r *http.Request, p place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.objects[p.String()]
	switch {
	case p.name == "":
		s.list(w, r, p)
	case !ok:
		notFound(w, p)
	case strings.HasSuffix(r.URL.Path, "/scale"):
		answer(w, http.StatusOK, scale(o))
	default:
		answer(w, http.StatusOK, o)
	}
}

func notFound(w http.ResponseWriter, p place) {
	Refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound, fmt.Sprintf("%s %q not found", p.GroupResource(), p.name),
		&metav1.StatusDetails{Name: p.name, Group: p.Group, Kind: p.Resource})
}

// list answers with a page.
func (s *Server) list(w http.ResponseWriter, r *http.Request, p place) {
	var items []Object
	for _, key := range slices.Sorted(maps.Keys(s.objects)) {
		o := s.objects[key]
		q := place{GroupVersionResource: p.GroupVersionResource, namespace: text(meta(o)["namespace"]), name: text(meta(o)["name"])}
		if key == q.String() && p.covers(q, o) {
			items = append(items, o)
		}
	}
	from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	m := Object{"resourceVersion": fmt.Sprint(s.version)}
	items = items[min(from, len(items)):]
	if limit > 0 && len(items) > limit {
		items = items[:limit]
		m["continue"] = fmt.Sprint(from + limit)
	}
	answer(w, http.StatusOK, Object{"apiVersion": "v1", "kind": "List", "metadata": m, "items": append([]Object{}, items...)})
}

func (s *Server) watch(w http.ResponseWriter, r *http.Request, p place) {
	flusher, ok := w.(http.Flusher)
	if !ok {
		return
	}
	ch := make(chan event, 1000)
	s.mu.Lock()
	for key, o := range s.objects {
		q := place{GroupVersionResource: p.GroupVersionResource, namespace: text(meta(o)["namespace"]), name: text(meta(o)["name"])}
		if key == q.String() && p.covers(q, o) {
			ch <- event{"ADDED", runtime.DeepCopyJSON(o)}
		}
	}
	s.watches[ch] = p
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.watches, ch)
		s.mu.Unlock()
	}()
	w.Header().Set("Content-Type", "application/json")
	flusher.Flush()
	for {
		select {
		case <-r.Context().Done():
			return
		case <-s.closed:
			return
		case e := <-ch:
			if err := json.NewEncoder(w).Encode(e); err != nil {
				return
			}
			flusher.Flush()
		}
	}
}

// change answers a PATCH, or a PUT of a scale.
func (s *Server) change(w http.ResponseWriter, r *http.Request, p place, body []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, ok := s.objects[p.String()]
	if !ok {
		notFound(w, p)
		return
	}
	var o Object
	var err error
	switch {
	case r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/scale"):
		var sc Object
		if err := kjson.Unmarshal(body, &sc); err != nil || meta(sc)["resourceVersion"] != meta(old)["resourceVersion"] {
			Refuse(w, http.StatusConflict, metav1.StatusReasonConflict, "the object has been modified", &metav1.StatusDetails{Name: p.name})
			return
		}
		o = runtime.DeepCopyJSON(old)
		In(o, "spec")["replicas"] = In(sc, "spec")["replicas"]
	case r.Method == http.MethodPatch:
		if o, err = patched(old, types.PatchType(r.Header.Get("Content-Type")), body); err != nil {
			Refuse(w, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "the server rejected our request due to an error in our request", &metav1.StatusDetails{})
			return
		}
	default:
		http.Error(w, "not done here", http.StatusMethodNotAllowed)
		return
	}
	if causes := s.store(p, r.URL.Query().Get("fieldManager"), o); len(causes) > 0 {
		Refuse(w, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, fmt.Sprintf("%s %q is invalid", p.Resource, p.name), &metav1.StatusDetails{Name: p.name, Causes: causes})
		return
	}
	if strings.HasSuffix(r.URL.Path, "/scale") {
		o = scale(o)
	}
	answer(w, http.StatusOK, o)
}

// patched applies a patch to a copy of an object.
func patched(old Object, kind types.PatchType, body []byte) (Object, error) {
	doc, err := json.Marshal(old)
	if err != nil {
		return nil, err
	}
	if kind == types.JSONPatchType {
		var p jsonpatch.Patch
		if p, err = jsonpatch.DecodePatch(body); err == nil {
			doc, err = p.Apply(doc)
		}
	} else {
		doc, err = jsonpatch.MergePatch(doc, body)
	}
	if err != nil {
		return nil, err
	}
	var o Object
	return o, kjson.Unmarshal(doc, &o)
}

// scale is the scale subresource of an object.
func scale(o Object) Object {
	spec, _ := o["spec"].(Object)
	m := meta(o)
	return Object{
		"apiVersion": "autoscaling/v1", "kind": "Scale",
		"metadata": Object{"name": m["name"], "namespace": m["namespace"], "uid": m["uid"], "resourceVersion": m["resourceVersion"]},
		"spec":     Object{"replicas": spec["replicas"]},
	}
}
