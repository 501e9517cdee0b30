package kube_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/shifter-dev/shifter/internal/kube"
	"github.com/shifter-dev/shifter/internal/kubetest"
)

const patience = 20 * time.Second

var (
	configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	labelled   = kube.Selection{Resource: configMaps, Namespace: "demo", Labels: "app=a"}
	named      = kube.Selection{Resource: configMaps, Namespace: "demo", Name: "x"}
)

// world is an API server with mirrors of it.
type world struct {
	*kubetest.Server
	*kube.Mirrors

	t *testing.T
	// opened has a token for each watch that is asked for, unless a test intercepts.
	opened chan struct{}
}

func newWorld(t *testing.T, cfg kube.MirrorsConfig) world {
	t.Helper()
	s := kubetest.New(t, configMaps)
	c, err := dynamic.NewForConfigAndClient(s.Config(), s.HTTP())
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Linger == 0 {
		cfg.Linger = -1
	}
	m := kube.NewMirrors(c, cfg)
	m.Hasten(time.Millisecond)
	opened := make(chan struct{}, 1000)
	s.Intercept = func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("watch") != "" {
			opened <- struct{}{}
		}
		return false
	}
	return world{s, m, t, opened}
}

func (w world) put(name string, n int) string {
	w.Put("kubectl", configMaps, kubetest.Object{
		"apiVersion": "v1", "kind": "ConfigMap", "data": kubetest.Object{"n": fmt.Sprint(n)},
		"metadata": kubetest.Object{"name": name, "namespace": "demo", "labels": kubetest.Object{"app": "a"}},
	})
	return kubetest.Text(w.Get(configMaps, "demo", name), "metadata", "resourceVersion")
}

// follow follows a selection until the test ends; the channel is told.
func (w world) follow(s kube.Selection) (told <-chan struct{}, stop func()) {
	ch := make(chan struct{}, 1)
	stop = w.Follow(w.t.Context(), s, func() {
		select {
		case ch <- struct{}{}:
		default:
		}
	})
	w.t.Cleanup(stop)
	return ch, stop
}

// values are what a sight shows, as name=n.
func values(objects []*unstructured.Unstructured) string {
	var out []string
	for _, o := range objects {
		out = append(out, o.GetName()+"="+kubetest.Text(o.Object, "data", "n"))
	}
	return strings.Join(out, " ")
}

// shows waits until the mirror is current and shows what is wanted.
func (w world) shows(s kube.Selection, want string) {
	w.t.Helper()
	got := "nothing"
	for end := time.Now().Add(patience); time.Now().Before(end); {
		if sight, ok := w.Read(w.t.Context(), s, time.Now().Add(50*time.Millisecond)); ok {
			if got = values(sight.Objects); got == want {
				if age := time.Since(sight.At); age < 0 || age > patience {
					w.t.Errorf("the look is %s old", age)
				}
				return
			}
		}
	}
	w.t.Fatalf("it shows %q, want %q", got, want)
}

// asked counts the lists and the watches so far.
func (w world) asked() (lists, watches int) {
	for _, r := range w.Asked(http.MethodGet) {
		if r.Query.Get("watch") != "" {
			watches++
		} else {
			lists++
		}
	}
	return lists, watches
}

func (w world) wantAsked(lists, watches int) {
	w.t.Helper()
	if l, n := w.asked(); l != lists || n != watches {
		w.t.Errorf("%d lists and %d watches, want %d and %d", l, n, lists, watches)
	}
}

func wait(t *testing.T, ch <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-ch:
	case <-time.After(patience):
		t.Fatalf("waited in vain: %s", what)
	}
}

func TestAMirrorIsOneListAndOneWatchForAll(t *testing.T) {
	w := newWorld(t, kube.MirrorsConfig{})
	w.put("x", 1)
	w.put("y", 2)
	if _, ok := w.Read(t.Context(), labelled, w.Patience()); ok {
		t.Fatal("what nobody follows is shown")
	}
	first, _ := w.follow(labelled)
	wait(t, first, "what it begins with")
	w.shows(labelled, "x=1 y=2")
	second, _ := w.follow(labelled)
	wait(t, second, "what it began with")
	for range 100 {
		if _, ok := w.Read(t.Context(), labelled, time.Time{}); !ok {
			t.Fatal("it is not current")
		}
	}
	w.put("x", 3)
	wait(t, first, "a change")
	wait(t, second, "a change")
	w.shows(labelled, "x=3 y=2")
	w.Delete(configMaps, "demo", "y")
	w.shows(labelled, "x=3")
	w.wantAsked(1, 1)
}

func TestAMirrorByNameShowsThatObjectOnly(t *testing.T) {
	w := newWorld(t, kube.MirrorsConfig{})
	w.put("x", 1)
	w.put("y", 2)
	w.follow(named)
	w.shows(named, "x=1")
	w.Delete(configMaps, "demo", "x")
	w.shows(named, "")
	w.put("x", 2)
	w.shows(named, "x=2")
	w.wantAsked(1, 1)
}

func TestAMirrorReadsAllPages(t *testing.T) {
	w := newWorld(t, kube.MirrorsConfig{})
	for i := range 501 {
		w.put(fmt.Sprintf("x%03d", i), i)
	}
	w.follow(labelled)
	s, ok := w.Read(t.Context(), labelled, time.Now().Add(patience))
	if !ok || len(s.Objects) != 501 || s.Objects[500].GetName() != "x500" {
		t.Errorf("%d objects, %v", len(s.Objects), ok)
	}
	w.wantAsked(2, 1)
}

func TestWhatIsKeptIsStripped(t *testing.T) {
	w := newWorld(t, kube.MirrorsConfig{Strip: func(r schema.GroupVersionResource, o *unstructured.Unstructured) {
		if r == configMaps {
			delete(o.Object, "metadata-of-ours")
			kubetest.In(o.Object, "metadata")["labels"] = nil
		}
	}})
	w.put("x", 1)
	w.follow(labelled)
	for i := range 2 {
		w.shows(labelled, fmt.Sprint("x=", i+1))
		if s, ok := w.Read(t.Context(), labelled, w.Patience()); !ok || len(s.Objects[0].GetLabels()) > 0 {
			t.Errorf("labels are kept: %v", s.Objects)
		}
		w.put("x", i+2)
	}
}

func TestAWatchThatTheServerEndsIsTakenUpWithoutAList(t *testing.T) {
	w := newWorld(t, kube.MirrorsConfig{})
	w.put("x", 1)
	told, _ := w.follow(labelled)
	w.shows(labelled, "x=1")
	w.put("x", 2)
	w.shows(labelled, "x=2")
	for len(told) > 0 {
		<-told
	}
	w.Hold()
	w.put("x", 3) // while there is no watch that hears of it
	wait(t, w.opened, "the first watch")
	w.Cut()
	wait(t, w.opened, "the second watch")
	w.Free()
	w.shows(labelled, "x=3")
	w.wantAsked(1, 2)
}

func TestAVersionThatIsForgottenBeginsAnew(t *testing.T) {
	w := newWorld(t, kube.MirrorsConfig{})
	w.put("x", 1)
	w.follow(labelled)
	w.shows(labelled, "x=1")
	w.put("x", 2)
	w.shows(labelled, "x=2")
	w.Hold()
	w.put("x", 3)
	w.Forget()
	wait(t, w.opened, "the first watch")
	w.Cut()
	wait(t, w.opened, "the second watch")
	w.Free()
	w.shows(labelled, "x=3")
	if lists, _ := w.asked(); lists < 2 {
		t.Error("it was not listed again")
	}
}

func TestAWatchThatDiesInSilenceIsNoticed(t *testing.T) {
	const silence = 300 * time.Millisecond
	w := newWorld(t, kube.MirrorsConfig{Silence: silence})
	w.put("x", 1)
	told, _ := w.follow(labelled)
	wait(t, told, "what it begins with")
	w.shows(labelled, "x=1")
	w.Hold()
	began := time.Now()
	w.put("x", 2)
	for {
		s, ok := w.Read(t.Context(), labelled, time.Time{})
		if !ok || values(s.Objects) == "x=2" {
			break // whoever asks now reads live, or sees it
		}
		if time.Since(began) > 2*silence+5*time.Second { // it has brought nothing yet
			t.Fatalf("it is shown as it was %s ago", time.Since(began))
		}
	}
	w.shows(labelled, "x=2") // by another list
}

func TestBookmarksKeepAMirrorCurrent(t *testing.T) {
	const silence = time.Second
	w := newWorld(t, kube.MirrorsConfig{Silence: silence})
	w.put("x", 1)
	w.follow(labelled)
	w.shows(labelled, "x=1")
	every := time.NewTicker(silence / 20)
	defer every.Stop()
	for end := time.After(3 * silence / 2); ; {
		select {
		case <-every.C:
			w.Bookmark(configMaps, "ConfigMap")
			continue
		case <-end:
		}
		break
	}
	w.wantAsked(1, 1)
}

// TestAWatchIsShortUntilBookmarksCome has the API server end a watch soon that may
// have no other sign of life.
func TestAWatchIsShortUntilBookmarksCome(t *testing.T) {
	w := newWorld(t, kube.MirrorsConfig{})
	w.put("x", 1)
	w.follow(labelled)
	w.shows(labelled, "x=1")
	w.put("x", 2)
	w.shows(labelled, "x=2")
	w.Put("kubectl", configMaps, kubetest.Object{ // of no concern to the mirror, but to the cluster
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": kubetest.Object{"name": "other", "namespace": "demo"},
	})
	w.Bookmark(configMaps, "ConfigMap")
	w.put("x", 3)
	w.shows(labelled, "x=3") // and so it has heard the bookmark
	for range 2 {
		wait(t, w.opened, "a watch")
		w.Cut()
	}
	var lasts []int
	for _, r := range w.Asked(http.MethodGet) {
		if q := r.Query; q.Get("watch") != "" {
			if q.Get("allowWatchBookmarks") != "true" {
				t.Errorf("watched %v", q)
			}
			n, err := strconv.Atoi(q.Get("timeoutSeconds"))
			if err != nil {
				t.Error(err)
			}
			lasts = append(lasts, n)
		}
	}
	if lasts[0] < 100 || lasts[0] > 150 || lasts[1] < 300 || lasts[1] > 600 {
		t.Errorf("the watches are to last %v s", lasts)
	}
}

func TestNothingOlderThanOurOwnWriteIsShown(t *testing.T) {
	w := newWorld(t, kube.MirrorsConfig{Patience: 20 * time.Millisecond})
	w.put("x", 1)
	w.follow(labelled)
	w.shows(labelled, "x=1")
	w.Hold()
	w.Floor(labelled, w.put("x", 2))
	if s, ok := w.Read(t.Context(), labelled, time.Time{}); ok {
		t.Fatalf("it shows %s", values(s.Objects))
	}
	w.shows(labelled, "x=2") // it has begun anew, since the write did not come in time
	w.Free()
	w.wantAsked(2, 2)
	w.Floor(labelled, w.put("x", 3))
	if s, ok := w.Read(t.Context(), labelled, time.Now().Add(patience)); !ok || values(s.Objects) != "x=3" {
		t.Errorf("it shows %s, %v: the write was waited for", values(s.Objects), ok)
	}
	w.wantAsked(2, 2)
}

func TestADoubtBeginsAnew(t *testing.T) {
	w := newWorld(t, kube.MirrorsConfig{})
	lists, let := make(chan struct{}, 1), make(chan struct{})
	var n atomic.Int32
	w.Intercept = func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("watch") == "" && n.Add(1) == 2 {
			lists <- struct{}{}
			<-let
		}
		return false
	}
	w.put("x", 1)
	w.follow(labelled)
	w.shows(labelled, "x=1")
	w.Doubt(labelled)
	wait(t, lists, "another list")
	if _, ok := w.Read(t.Context(), labelled, time.Time{}); ok {
		t.Error("it is shown while it is in doubt")
	}
	w.Doubt(labelled) // what is under way is in doubt too
	close(let)
	w.shows(labelled, "x=1")
	w.wantAsked(3, 2)
}

func TestVersionsThatAreNoNumbersAreNeverCurrent(t *testing.T) {
	w := newWorld(t, kube.MirrorsConfig{})
	w.put("x", 1)
	w.follow(labelled)
	w.shows(labelled, "x=1")
	w.Floor(labelled, "z9")
	if _, ok := w.Read(t.Context(), labelled, w.Patience()); ok {
		t.Error("it is shown")
	}
}

// TestAClusterThatWasRestoredCountsFromAnEarlierVersion knows of a version that
// never comes: a list that was made since is newer than whatever that was.
func TestAClusterThatWasRestoredCountsFromAnEarlierVersion(t *testing.T) {
	w := newWorld(t, kube.MirrorsConfig{Patience: 20 * time.Millisecond})
	w.put("x", 1)
	w.follow(labelled)
	w.shows(labelled, "x=1")
	w.Floor(labelled, "123456789012345678901234567890")
	w.shows(labelled, "x=1")
	w.wantAsked(2, 2)
}

func TestWhileNothingIsAnsweredNothingIsShownAndNothingWaitedFor(t *testing.T) {
	w := newWorld(t, kube.MirrorsConfig{})
	refuse := atomic.Bool{}
	refuse.Store(true)
	w.Intercept = func(rw http.ResponseWriter, _ *http.Request) bool {
		if refuse.Load() {
			http.Error(rw, "no", http.StatusForbidden)
		}
		return refuse.Load()
	}
	w.put("x", 1)
	told, _ := w.follow(labelled)
	wait(t, told, "a try that failed")
	began := time.Now()
	if _, ok := w.Read(t.Context(), labelled, began.Add(patience)); ok || time.Since(began) > patience/2 {
		t.Error("it is shown, or was waited for")
	}
	refuse.Store(false)
	w.shows(labelled, "x=1")
}

func TestAMirrorStaysForAWhileAndNotForever(t *testing.T) {
	w := newWorld(t, kube.MirrorsConfig{Linger: 500 * time.Millisecond})
	ended := make(chan struct{})
	w.Intercept = func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("watch") != "" {
			go func() {
				<-r.Context().Done()
				close(ended)
			}()
		}
		return false
	}
	w.put("x", 1)
	_, stop := w.follow(labelled)
	w.shows(labelled, "x=1")
	stop()
	stop() // once is enough
	_, stop = w.follow(labelled)
	w.shows(labelled, "x=1")
	w.wantAsked(1, 1)
	stop()
	wait(t, ended, "the end of the watch")
	if _, ok := w.Read(t.Context(), labelled, w.Patience()); ok || w.Peek(labelled) != nil {
		t.Error("it is still shown")
	}
	w.Floor(labelled, "1") // of no mirror
	w.Doubt(labelled)
}

func TestWhoHasStoppedIsNotTold(t *testing.T) {
	w := newWorld(t, kube.MirrorsConfig{})
	w.put("x", 1)
	var after atomic.Bool
	stop := w.Follow(t.Context(), labelled, func() {
		if after.Load() {
			t.Error("told after stop")
		}
	})
	other, _ := w.follow(labelled)
	w.shows(labelled, "x=1")
	stop()
	after.Store(true)
	for len(other) > 0 {
		<-other
	}
	w.put("x", 2)
	wait(t, other, "a change")
	if got := values(w.Peek(labelled)); got != "x=2" {
		t.Errorf("it has %s", got)
	}
}

// TestAListFromBeforeOurWriteIsNotEnough writes while a list is on its way.
func TestAListFromBeforeOurWriteIsNotEnough(t *testing.T) {
	w := newWorld(t, kube.MirrorsConfig{Patience: 20 * time.Millisecond})
	w.put("x", 1)
	var n atomic.Int32
	w.Intercept = func(rw http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("watch") != "" || n.Add(1) != 1 {
			return false
		}
		made := httptest.NewRecorder()
		w.ServeHTTP(made, r)
		w.Hold()
		w.Floor(labelled, w.put("x", 2))
		rw.Header().Set("Content-Type", "application/json")
		_, _ = rw.Write(made.Body.Bytes())
		return true
	}
	w.follow(labelled)
	s, ok := w.Read(t.Context(), labelled, time.Now().Add(200*time.Millisecond))
	if ok && values(s.Objects) != "x=2" {
		t.Errorf("it shows %s", values(s.Objects))
	}
	w.shows(labelled, "x=2")
}
