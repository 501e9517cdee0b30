package kubetest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"github.com/shifter-dev/shifter/internal/kubetest"
)

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

func server(t *testing.T) (*kubetest.Server, dynamic.ResourceInterface) {
	t.Helper()
	s := kubetest.New(t, configMaps)
	c, err := dynamic.NewForConfigAndClient(s.Config(), s.HTTP())
	if err != nil {
		t.Fatal(err)
	}
	return s, c.Resource(configMaps).Namespace("demo")
}

func object(name, label string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"a": "1"},
		"metadata": map[string]any{"name": name, "labels": map[string]any{"kind": label}},
	}}
}

func must(t *testing.T) func(*unstructured.Unstructured, error) *unstructured.Unstructured {
	return func(o *unstructured.Unstructured, err error) *unstructured.Unstructured {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
}

func TestObjectsAreCreatedUpdatedAndDeletedByVersion(t *testing.T) {
	s, c := server(t)
	ctx := t.Context()
	made := must(t)(c.Create(ctx, object("x", "a"), metav1.CreateOptions{}))
	if made.GetUID() == "" || made.GetResourceVersion() == "" || made.GetNamespace() != "demo" {
		t.Errorf("created %v", made)
	}
	if _, err := c.Create(ctx, object("x", "a"), metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		t.Errorf("created again: %v", err)
	}
	same := must(t)(c.Update(ctx, made, metav1.UpdateOptions{}))
	if same.GetResourceVersion() != made.GetResourceVersion() {
		t.Error("an update that changes nothing made a version")
	}
	change := made.DeepCopy()
	change.Object["data"] = map[string]any{"a": "2"}
	next := must(t)(c.Update(ctx, change, metav1.UpdateOptions{}))
	if next.GetResourceVersion() == made.GetResourceVersion() || next.GetUID() != made.GetUID() {
		t.Errorf("updated to %v", next)
	}
	if _, err := c.Update(ctx, change, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("updated over an old version: %v", err)
	}
	must(t)(c.Update(ctx, object("x", "b"), metav1.UpdateOptions{})) // without a version the last one wins
	if _, err := c.Update(ctx, object("y", "a"), metav1.UpdateOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("updated what is not there: %v", err)
	}
	old, uid := next.GetResourceVersion(), next.GetUID()
	if err := c.Delete(ctx, "x", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &old}}); !apierrors.IsConflict(err) {
		t.Errorf("deleted at an old version: %v", err)
	}
	if err := c.Delete(ctx, "x", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}); err != nil {
		t.Error(err)
	}
	if err := c.Delete(ctx, "x", metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("deleted twice: %v", err)
	}
	s.NoNamespace = func(string) bool { return true }
	if _, err := c.Create(ctx, object("z", "a"), metav1.CreateOptions{}); !apierrors.IsNotFound(err) || err.Error() != `namespaces "demo" not found` {
		t.Errorf("created in no namespace: %v", err)
	}
}

// events takes as many events of a watch as are named, each as its type and name.
func events(t *testing.T, w watch.Interface, want ...string) (last string) {
	t.Helper()
	for _, what := range want {
		select {
		case e, open := <-w.ResultChan():
			got := "closed"
			if open {
				got = string(e.Type)
			}
			if o, ok := e.Object.(*unstructured.Unstructured); ok {
				last = o.GetResourceVersion()
				if o.GetName() != "" {
					got += " " + o.GetName()
				}
			}
			if got != what {
				t.Fatalf("heard %s, want %s", got, what)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("did not hear %s", what)
		}
	}
	return last
}

func TestAWatchGoesOnFromAVersion(t *testing.T) {
	s, c := server(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	first := must(t)(c.Create(ctx, object("x", "a"), metav1.CreateOptions{}))
	begin := func(from string) watch.Interface {
		w, err := c.Watch(ctx, metav1.ListOptions{LabelSelector: "kind=a", ResourceVersion: from, AllowWatchBookmarks: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(w.Stop)
		return w
	}
	now, later := begin(""), begin(first.GetResourceVersion())
	events(t, now, "ADDED x")
	must(t)(c.Create(ctx, object("other", "b"), metav1.CreateOptions{}))
	out := must(t)(c.Update(ctx, object("x", "b"), metav1.UpdateOptions{}))
	must(t)(c.Update(ctx, object("x", "a"), metav1.UpdateOptions{}))
	change := object("x", "a")
	change.SetAnnotations(map[string]string{"a": "b"})
	must(t)(c.Update(ctx, change, metav1.UpdateOptions{}))
	for _, w := range []watch.Interface{now, later} {
		if v := events(t, w, "DELETED x"); v != out.GetResourceVersion() {
			t.Errorf("what left the selection has version %s, not that of the change, %s", v, out.GetResourceVersion())
		}
		events(t, w, "ADDED x", "MODIFIED x")
	}
	s.Bookmark(configMaps, "ConfigMap")
	if v := events(t, later, "BOOKMARK"); v != fmt.Sprint(s.Version()) {
		t.Errorf("the bookmark is at %s", v)
	}
	s.Cut()
	events(t, later, "closed")
	s.Forget()
	must(t)(c.Create(ctx, object("y", "a"), metav1.CreateOptions{}))
	events(t, begin(first.GetResourceVersion()), "ERROR", "closed")
	seconds := int64(1)
	w, err := c.Watch(ctx, metav1.ListOptions{TimeoutSeconds: &seconds, ResourceVersion: fmt.Sprint(s.Version())})
	if err != nil {
		t.Fatal(err)
	}
	events(t, w, "closed")
}

func TestAWatchThatIsHeldHearsLaterOfAllInOrder(t *testing.T) {
	s, c := server(t)
	w, err := c.Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=x"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	must(t)(c.Create(t.Context(), object("x", "a"), metav1.CreateOptions{}))
	events(t, w, "ADDED x")
	s.Hold()
	must(t)(c.Update(t.Context(), object("x", "b"), metav1.UpdateOptions{}))
	must(t)(c.Create(t.Context(), object("y", "a"), metav1.CreateOptions{}))
	s.Delete(configMaps, "demo", "x")
	page, err := c.List(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=y"})
	if err != nil || len(page.Items) != 1 || page.GetResourceVersion() != fmt.Sprint(s.Version()) {
		t.Errorf("listed %v, %v", page, err)
	}
	select {
	case e := <-w.ResultChan():
		t.Errorf("heard %v", e)
	default:
	}
	s.Free()
	events(t, w, "MODIFIED x", "DELETED x")
}

func TestAllPagesOfAListAreOfOneMoment(t *testing.T) {
	s, c := server(t)
	for i := range 5 {
		must(t)(c.Create(t.Context(), object(fmt.Sprint("x", i), "a"), metav1.CreateOptions{}))
	}
	var names []string
	opts := metav1.ListOptions{LabelSelector: "kind=a", Limit: 2}
	page, err := c.List(t.Context(), opts)
	version := page.GetResourceVersion()
	for ; ; page, err = c.List(t.Context(), opts) {
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range page.Items {
			names = append(names, o.GetName())
		}
		if page.GetResourceVersion() != version {
			t.Errorf("a page is of %s, the first of %s", page.GetResourceVersion(), version)
		}
		if opts.Continue = page.GetContinue(); opts.Continue == "" {
			break
		}
		s.Delete(configMaps, "demo", "x4")
	}
	if fmt.Sprint(names) != "[x0 x1 x2 x3 x4]" {
		t.Errorf("listed %v", names)
	}
	page, err = c.List(t.Context(), metav1.ListOptions{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	s.Forget()
	if _, err := c.List(t.Context(), metav1.ListOptions{Continue: page.GetContinue()}); !apierrors.IsResourceExpired(err) {
		t.Errorf("went on with a list that is forgotten: %v", err)
	}
}
