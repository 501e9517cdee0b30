package kubetest

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

// Object is an object as it lies in the API.
type Object = map[string]any

// Request is a request that the server got.
type Request struct {
	Method, Path string
	Query        url.Values
	Body         string
}

// Server is an API server. Its hooks are set before it is asked anything.
type Server struct {
	// Intercept may answer in the server's place; it says whether it did.
	Intercept func(w http.ResponseWriter, r *http.Request) bool
	// Admit sees an object before it is stored, may complete it as a controller
	// would, and says what the schema has against it.
	Admit func(obj Object) []metav1.StatusCause
	// BeforeRead is called before an object or a list is read, as if time had
	// passed.
	BeforeRead func(path string)
	// Denied says which verbs a SelfSubjectAccessReview denies.
	Denied func(verb, resource string) bool
	// NoNamespace says which namespaces do not exist; by default all do.
	NoNamespace func(name string) bool

	t       testing.TB
	http    *httptest.Server
	client  *http.Client
	closed  chan struct{}
	serves  map[string]bool
	mu      sync.Mutex
	objects map[string]Object // by place
	version int64
	uids    int
	asked   []Request
	history history
}

// New starts a server that serves some resources; it ends with the test.
func New(t testing.TB, serves ...schema.GroupVersionResource) *Server {
	t.Helper()
	s := &Server{
		t: t, closed: make(chan struct{}), serves: map[string]bool{},
		objects: map[string]Object{}, history: newHistory(),
	}
	for _, r := range serves {
		s.serves[r.String()] = true
	}
	s.http = httptest.NewServer(s)
	c, err := rest.HTTPClientFor(s.Config())
	if err != nil {
		t.Fatal(err)
	}
	s.client = c
	t.Cleanup(func() {
		close(s.closed)
		s.client.CloseIdleConnections()
		s.http.Close()
	})
	return s
}

// Config is how to reach the server.
func (s *Server) Config() *rest.Config {
	return &rest.Config{Host: s.http.URL, QPS: -1, WarningHandler: rest.NoWarnings{}}
}

// HTTP is a client whose connections end with the test.
func (s *Server) HTTP() *http.Client { return s.client }

// YAML reads an object.
func YAML(t testing.TB, text string) Object {
	t.Helper()
	b, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var o Object
	if err := kjson.Unmarshal(b, &o); err != nil {
		t.Fatal(err)
	}
	return o
}

// Put stores an object as a field manager would: it gets a UID, a version, a
// generation and a time of creation where it has none.
func (s *Server) Put(manager string, r schema.GroupVersionResource, o Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := meta(o)
	p := place{r, text(m["namespace"]), text(m["name"]), ""}
	s.uids = max(s.uids, count(text(m["uid"])))
	if causes := s.store(p, manager, runtime.DeepCopyJSON(o)); len(causes) > 0 {
		s.t.Errorf("%v is refused: %v", p, causes)
	}
}

// count is the number in a UID that a server has given, so that it gives another
// one next.
func count(uid string) int {
	n := 0
	if digits, ok := strings.CutPrefix(uid, uidPrefix); ok {
		_, _ = fmt.Sscanf(digits, "%d", &n)
	}
	return n
}

const uidPrefix = "00000000-0000-4000-8000-"

// Edit changes an object as a field manager would.
func (s *Server) Edit(manager string, r schema.GroupVersionResource, namespace, name string, edit func(Object)) {
	s.t.Helper()
	o := s.Get(r, namespace, name)
	if o == nil {
		s.t.Fatalf("%s %s/%s does not exist", r.Resource, namespace, name)
	}
	edit(o)
	s.Put(manager, r, o)
}

// Get returns a copy of an object, nil without.
func (s *Server) Get(r schema.GroupVersionResource, namespace, name string) Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	return runtime.DeepCopyJSON(s.objects[place{r, namespace, name, ""}.String()])
}

// List returns copies of all objects of a resource, by name.
func (s *Server) List(r schema.GroupVersionResource) []Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Object
	for _, key := range slices.Sorted(maps.Keys(s.objects)) {
		if strings.HasPrefix(key, r.String()+" ") {
			out = append(out, runtime.DeepCopyJSON(s.objects[key]))
		}
	}
	return out
}

// Version rises with every change.
func (s *Server) Version() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version
}

// Delete removes an object.
func (s *Server) Delete(r schema.GroupVersionResource, namespace, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := place{r, namespace, name, ""}
	s.remove(p)
}

// remove takes an object away, if it is there; the caller holds the lock.
func (s *Server) remove(p place) {
	if o, ok := s.objects[p.String()]; ok {
		delete(s.objects, p.String())
		s.version++
		s.history.add(change{version: s.version, at: p, was: o})
	}
}

// Asked returns the requests with a method so far.
func (s *Server) Asked(method string) []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.asked), func(r Request) bool { return r.Method != method })
}

// store keeps an object, with what the API server adds to it; the caller holds
// the lock.
func (s *Server) store(p place, manager string, o Object) []metav1.StatusCause {
	old := s.objects[p.String()]
	m := meta(o)
	s.version++
	m["resourceVersion"] = fmt.Sprint(s.version)
	switch {
	case old == nil:
		if m["uid"] == nil {
			s.uids++
			m["uid"] = fmt.Sprintf("%s%012d", uidPrefix, s.uids)
		}
		if m["creationTimestamp"] == nil {
			m["creationTimestamp"] = time.Date(2026, 11, 1, 0, 0, s.uids, 0, time.UTC).Format(time.RFC3339)
		}
		if m["generation"] == nil {
			m["generation"] = int64(1)
		}
	case !equality.Semantic.DeepEqual(old["spec"], o["spec"]):
		n, _ := meta(old)["generation"].(int64)
		m["generation"] = n + 1
	}
	s.manage(manager, old, o)
	if s.Admit != nil {
		if causes := s.Admit(o); len(causes) > 0 {
			return causes
		}
	}
	s.objects[p.String()] = o
	s.history.add(change{version: s.version, at: p, was: old, is: o})
	return nil
}

// manage keeps account of who owns which field right under spec, all of them
// taken as atomic.
func (s *Server) manage(manager string, old, o Object) {
	was, _ := old["spec"].(Object)
	is, _ := o["spec"].(Object)
	owned := Object{}
	for k, v := range is {
		if !equality.Semantic.DeepEqual(was[k], v) {
			owned["f:"+k] = Object{}
		}
	}
	if manager == "" || len(owned) == 0 {
		return
	}
	var entries []any
	list, _ := meta(o)["managedFields"].([]any)
	for _, e := range list {
		entry := In(e)
		theirs := In(entry, "fieldsV1", "f:spec")
		for k := range theirs {
			if _, taken := owned[k]; taken || entry["manager"] == manager {
				delete(theirs, k)
				if entry["manager"] == manager {
					owned[k] = Object{}
				}
			}
		}
		if len(theirs) > 0 {
			entries = append(entries, entry)
		}
	}
	meta(o)["managedFields"] = append(entries, Object{
		"manager": manager, "operation": "Update", "apiVersion": o["apiVersion"], "time": "2026-11-01T00:00:00Z",
		"fieldsType": "FieldsV1", "fieldsV1": Object{"f:spec": owned},
	})
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	s.mu.Lock()
	s.asked = append(s.asked, Request{r.Method, r.URL.Path, r.URL.Query(), string(body)})
	s.mu.Unlock()
	if s.Intercept != nil && s.Intercept(w, r) {
		return
	}
	p, ok := parse(r.URL)
	switch {
	case ok && p.Resource == "selfsubjectaccessreviews":
		s.review(w, body)
	case !ok || !s.serves[p.GroupVersionResource.String()]:
		http.Error(w, "404 page not found", http.StatusNotFound)
	case r.Method == http.MethodGet && r.URL.Query().Get("watch") != "":
		s.watch(w, r, p)
	case r.Method == http.MethodGet:
		if s.BeforeRead != nil {
			s.BeforeRead(r.URL.Path)
		}
		s.read(w, r, p)
	default:
		s.write(w, r, p, body)
	}
}

func (s *Server) review(w http.ResponseWriter, body []byte) {
	var in struct {
		Spec struct {
			ResourceAttributes struct{ Verb, Resource, Subresource string }
		}
	}
	if err := json.Unmarshal(body, &in); err != nil {
		Refuse(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error(), nil)
		return
	}
	a := in.Spec.ResourceAttributes
	if a.Subresource != "" {
		a.Resource += "/" + a.Subresource
	}
	answer(w, http.StatusCreated, Object{
		"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
		"status": Object{"allowed": s.Denied == nil || !s.Denied(a.Verb, a.Resource)},
	})
}

// Refuse answers with a Status.
func Refuse(w http.ResponseWriter, code int32, reason metav1.StatusReason, message string, details *metav1.StatusDetails) {
	answer(w, int(code), metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Code: code, Reason: reason, Message: message, Details: details,
	})
}

func answer(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body)
}

func meta(o Object) Object {
	m, ok := o["metadata"].(Object)
	if !ok {
		m = Object{}
		o["metadata"] = m
	}
	return m
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

// In follows keys and places to an object inside another. A test that is wrong
// about what is there ends at once.
func In(o any, path ...any) Object { return dig[Object](o, path) }

// Items is In for a list.
func Items(o any, path ...any) []any { return dig[[]any](o, path) }

// Text is In for a string.
func Text(o any, path ...any) string { return dig[string](o, path) }

func dig[T any](v any, path []any) T {
	for i, step := range path {
		switch at := v.(type) {
		case Object:
			key, _ := step.(string)
			v = at[key]
		case []any:
			place, _ := step.(int)
			v = at[place]
		default:
			panic(fmt.Sprintf("nothing to follow at %v: %v", path[:i], v))
		}
	}
	out, ok := v.(T)
	if !ok {
		panic(fmt.Sprintf("at %v is %T %v", path, v, v))
	}
	return out
}
