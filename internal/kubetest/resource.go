package kubetest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/api/equality"
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
	case p.name == "", r.URL.Query().Has("fieldSelector"):
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

// write answers a POST, PUT, PATCH or DELETE.
func (s *Server) write(w http.ResponseWriter, r *http.Request, p place, body []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, there := s.objects[p.String()]
	switch {
	case r.Method == http.MethodPost && p.name == "":
		s.create(w, r, p, body)
	case p.name == "" || r.Method == http.MethodPost:
		http.Error(w, "not done here", http.StatusMethodNotAllowed)
	case !there:
		notFound(w, p)
	case r.Method == http.MethodDelete:
		s.delete(w, p, old, body)
	case r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/scale"):
		s.size(w, r, p, old, body)
	case r.Method == http.MethodPut:
		s.update(w, r, p, old, body)
	case r.Method == http.MethodPatch:
		o, err := patched(old, types.PatchType(r.Header.Get("Content-Type")), body)
		if err != nil {
			Refuse(w, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "the server rejected our request due to an error in our request", &metav1.StatusDetails{})
			return
		}
		if s.keep(w, r, p, o) {
			answer(w, http.StatusOK, o)
		}
	default:
		http.Error(w, "not done here", http.StatusMethodNotAllowed)
	}
}

// keep stores an object that a request brings, or answers what is wrong with it.
func (s *Server) keep(w http.ResponseWriter, r *http.Request, p place, o Object) bool {
	causes := s.store(p, r.URL.Query().Get("fieldManager"), o)
	if len(causes) > 0 {
		Refuse(w, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, fmt.Sprintf("%s %q is invalid", p.Resource, p.name), &metav1.StatusDetails{Name: p.name, Causes: causes})
	}
	return len(causes) == 0
}

// size answers a PUT of a scale.
func (s *Server) size(w http.ResponseWriter, r *http.Request, p place, old Object, body []byte) {
	var sc Object
	if err := kjson.Unmarshal(body, &sc); err != nil || meta(sc)["resourceVersion"] != meta(old)["resourceVersion"] {
		outdated(w, p)
		return
	}
	o := runtime.DeepCopyJSON(old)
	In(o, "spec")["replicas"] = In(sc, "spec")["replicas"]
	if s.keep(w, r, p, o) {
		answer(w, http.StatusOK, scale(o))
	}
}

func outdated(w http.ResponseWriter, p place) {
	Refuse(w, http.StatusConflict, metav1.StatusReasonConflict,
		fmt.Sprintf("Operation cannot be fulfilled on %s %q: the object has been modified; please apply your changes to the latest version and try again", p.GroupResource(), p.name),
		&metav1.StatusDetails{Name: p.name, Group: p.Group, Kind: p.Resource})
}

func malformed(w http.ResponseWriter, why string) {
	Refuse(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, why, nil)
}

// create answers a POST. A name must be given; one that is there already is a
// conflict of its own reason.
func (s *Server) create(w http.ResponseWriter, r *http.Request, p place, body []byte) {
	var o Object
	if err := kjson.Unmarshal(body, &o); err != nil {
		malformed(w, err.Error())
		return
	}
	m := meta(o)
	p.name = text(m["name"])
	switch ns := text(m["namespace"]); {
	case ns != "" && ns != p.namespace:
		malformed(w, "the namespace of the provided object does not match the namespace sent on the request")
		return
	case s.NoNamespace != nil && s.NoNamespace(p.namespace):
		Refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound, fmt.Sprintf("namespaces %q not found", p.namespace),
			&metav1.StatusDetails{Name: p.namespace, Kind: "namespaces"})
		return
	case p.name == "":
		Refuse(w, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "name or generateName is required",
			&metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: metav1.CauseTypeFieldValueRequired, Field: "metadata.name"}}})
		return
	case s.objects[p.String()] != nil:
		Refuse(w, http.StatusConflict, metav1.StatusReasonAlreadyExists, fmt.Sprintf("%s %q already exists", p.GroupResource(), p.name),
			&metav1.StatusDetails{Name: p.name, Group: p.Group, Kind: p.Resource})
		return
	case text(m["resourceVersion"]) != "":
		Refuse(w, http.StatusInternalServerError, metav1.StatusReasonInternalError, "resourceVersion should not be set on objects to be created", nil)
		return
	}
	m["namespace"] = p.namespace
	delete(m, "uid")
	delete(m, "creationTimestamp")
	if s.keep(w, r, p, o) {
		answer(w, http.StatusCreated, o)
	}
}

// update answers a PUT. With a version it must be the present one; without, the
// last one wins. What the server gives stays, and a PUT that changes nothing is
// no change.
func (s *Server) update(w http.ResponseWriter, r *http.Request, p place, old Object, body []byte) {
	var o Object
	if err := kjson.Unmarshal(body, &o); err != nil {
		malformed(w, err.Error())
		return
	}
	m, was := meta(o), meta(old)
	if name := text(m["name"]); name != p.name {
		malformed(w, fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", name, p.name))
		return
	}
	if v, uid := text(m["resourceVersion"]), text(m["uid"]); v != "" && v != was["resourceVersion"] || uid != "" && uid != was["uid"] {
		outdated(w, p)
		return
	}
	for _, given := range []string{"namespace", "uid", "creationTimestamp", "generation", "resourceVersion"} {
		if m[given] = was[given]; m[given] == nil {
			delete(m, given)
		}
	}
	if m["managedFields"] == nil && was["managedFields"] != nil {
		m["managedFields"] = runtime.DeepCopyJSONValue(was["managedFields"])
	}
	if equality.Semantic.DeepEqual(o, old) {
		answer(w, http.StatusOK, old)
		return
	}
	if s.keep(w, r, p, o) {
		answer(w, http.StatusOK, o)
	}
}

// delete answers a DELETE with its preconditions.
func (s *Server) delete(w http.ResponseWriter, p place, old Object, body []byte) {
	var opts metav1.DeleteOptions
	if len(body) > 0 {
		if err := json.Unmarshal(body, &opts); err != nil {
			malformed(w, err.Error())
			return
		}
	}
	uid, version := text(meta(old)["uid"]), text(meta(old)["resourceVersion"])
	if c := opts.Preconditions; c != nil && (c.UID != nil && string(*c.UID) != uid || c.ResourceVersion != nil && *c.ResourceVersion != version) {
		outdated(w, p)
		return
	}
	s.remove(p)
	answer(w, http.StatusOK, metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess,
		Details: &metav1.StatusDetails{Name: p.name, Group: p.Group, Kind: p.Resource, UID: types.UID(uid)},
	})
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
