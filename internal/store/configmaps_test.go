package store_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"

	"github.com/shifter-dev/shifter/internal/kubetest"
	"github.com/shifter-dev/shifter/internal/release"
	"github.com/shifter-dev/shifter/internal/store"
)

func TestConfigMaps(t *testing.T) {
	Contract(t, func(t *testing.T) Bench {
		c := newCluster(t)
		return c.bench(c.open(t, store.ConfigMapsConfig{}))
	})
}

func TestEveryReleaseHasANameOfItsOwnThatAClusterTakes(t *testing.T) {
	if got := store.RecordName(release.Key{Namespace: "shop", Name: "checkout-4711"}); !strings.HasPrefix(got, "shifter-release-shop-checkout-4711-") {
		t.Errorf("%s cannot be read", got)
	}
	rapid.Check(t, func(t *rapid.T) {
		part := rapid.OneOf(rapid.StringMatching(`[a-z0-9-]{1,6}`), rapid.String(), rapid.StringMatching(`[a-z]{100,300}`))
		a := release.Key{Namespace: part.Draw(t, "ns"), Name: part.Draw(t, "name")}
		b := release.Key{Namespace: part.Draw(t, "ns"), Name: part.Draw(t, "name")}
		// The same letters, cut elsewhere.
		whole := a.Namespace + "-" + a.Name
		if i := rapid.IntRange(0, len(whole)).Draw(t, "cut"); i < len(whole) && whole[i] == '-' {
			b = release.Key{Namespace: whole[:i], Name: whole[i+1:]}
		}
		name := store.RecordName(a)
		if bad := validation.IsDNS1123Subdomain(name); len(bad) > 0 {
			t.Fatalf("%q of %q: %v", name, a, bad)
		}
		if a != b && name == store.RecordName(b) {
			t.Fatalf("%q and %q share %s", a, b, name)
		}
	})
}

func TestARecordIsAConfigMapThatPeopleFind(t *testing.T) {
	c := newCluster(t)
	s := c.open(t, store.ConfigMapsConfig{})
	rec := create(t, s, sample("a"))
	o := c.Get(configMaps, ns, store.RecordName(rec.Release.Key))
	if got := kubetest.In(o, "metadata", "labels"); got["app.kubernetes.io/managed-by"] != "shifter" || got["shifter.dev/kind"] != "release" {
		t.Errorf("labels %v", got)
	}
	if got := kubetest.In(o, "metadata", "annotations"); len(got) != 1 || got["shifter.dev/release"] != "shop/a" {
		t.Errorf("annotations %v", got)
	}
	// What others wrote on it stays.
	c.Edit("kubectl", configMaps, ns, store.RecordName(rec.Release.Key), func(o kubetest.Object) {
		kubetest.In(o, "metadata", "labels")["team"] = "shop"
		delete(kubetest.In(o, "metadata", "labels"), "shifter.dev/kind")
		kubetest.In(o, "metadata")["finalizers"] = []any{"example.com/keep"}
		kubetest.In(o, "data")["note"] = "theirs"
	})
	rec = load(t, s, rec.Release.Key)
	save(t, s, rec.Release, rec.Version)
	o = c.Get(configMaps, ns, store.RecordName(rec.Release.Key))
	if kubetest.Text(o, "metadata", "labels", "team") != "shop" || kubetest.Text(o, "metadata", "finalizers", 0) != "example.com/keep" ||
		kubetest.Text(o, "data", "note") != "theirs" || kubetest.Text(o, "metadata", "labels", "shifter.dev/kind") != "release" {
		t.Errorf("a save left %v", o)
	}
	for _, w := range append(c.Asked(http.MethodPut), c.Asked(http.MethodPost)...) {
		if w.Query.Get("fieldManager") != "shifter" {
			t.Errorf("%s %s has no field manager", w.Method, w.Path)
		}
	}
}

func TestEachCallAsksNoMoreThanItMust(t *testing.T) {
	c := newCluster(t)
	s, other := c.two(t)
	k := sample("a").Key
	var rec release.Record
	for _, step := range []struct {
		what, want string
		do         func()
	}{
		{"the first create, with a look at what is there", "2 GET 2 POST 1 PUT", func() { create1(t, s, sample("a")) }},
		{"another create, with a look at the first", "2 GET 1 POST 2 PUT", func() { create1(t, s, sample("b")) }},
		{"a create over a lock that is held", "2 GET", func() {
			r := sample("c")
			r.Binding = sample("a").Binding
			wantErr(t, s.Create(t.Context(), r), release.ErrExists)
		}},
		{"a create of a name that is used", "2 GET 1 POST", func() { wantErr(t, s.Create(t.Context(), sample("a")), release.ErrExists) }},
		{"load", "1 GET", func() { rec = load(t, s, k) }},
		{"save after load", "1 PUT", func() { rec.Version = save(t, s, rec.Release, rec.Version) }},
		{"save after save", "1 PUT", func() { rec.Version = save(t, s, rec.Release, rec.Version) }},
		{"append to what was seen", "1 PUT", func() { send(t, s, k, "x") }},
		{"a stale save", "1 GET", func() {
			_, err := s.Save(t.Context(), rec.Release, rec.Version)
			wantErr(t, err, release.ErrConflict)
		}},
		{"append by another process", "1 GET 1 PUT", func() { send(t, other, k, "y") }},
		{"append to what another has changed", "1 GET 2 PUT", func() { send(t, s, k, "z") }},
		{"list", "1 GET", func() { _, _ = s.List(t.Context()) }},
		{"the first epoch", "2 GET 1 POST", func() { epoch(t, s) }},
		{"an epoch", "1 GET 1 PUT", func() { epoch(t, s) }},
		{"an epoch that need not be raised", "1 GET", func() { _, _ = s.RaiseEpoch(t.Context(), 2, 1) }},
		{"watch", "1 GET", func() { watch(t, Bench{Store: s}) }},
		{"the end", "1 GET 1 PUT", func() {
			rec = load(t, s, k)
			save(t, s, ended(rec.Release), rec.Version)
		}},
	} {
		if got := c.calls(step.do); got != step.want {
			t.Errorf("%s: %s, want %s", step.what, got, step.want)
		}
	}
	c.watches(t, 1)
	if got := c.calls(func() { c.Bookmark(configMaps, "ConfigMap") }); got != "" {
		t.Errorf("an idle store asks %s", got)
	}
	if n := s.Seen(); n != 1 {
		t.Errorf("%d records are kept of one that has not ended", n)
	}
}

func create1(t *testing.T, s Store, r release.Release) {
	t.Helper()
	if err := s.Create(t.Context(), r); err != nil {
		t.Fatalf("create %s: %v", r.Key, err)
	}
}

func TestNoMoreThanSoManyRecordsAreKept(t *testing.T) {
	c := newCluster(t)
	s := c.open(t, store.ConfigMapsConfig{})
	c.seed(t, store.MaxSeen+20)
	for i := range store.MaxSeen + 20 {
		load(t, s, sample(fmt.Sprint(i)).Key)
	}
	if n := s.Seen(); n != store.MaxSeen {
		t.Errorf("%d are kept", n)
	}
	keys, err := s.List(t.Context())
	if err != nil || len(keys) != store.MaxSeen+20 {
		t.Errorf("%d listed, %v", len(keys), err)
	}
	for _, r := range c.Asked(http.MethodGet) {
		if strings.HasSuffix(r.Path, "/configmaps") && (r.Query.Get("limit") == "" || r.Query.Get("labelSelector") == "") {
			t.Errorf("listed without bounds: %v", r.Query)
		}
	}
}

func TestAListThatWasForgottenHalfwayBeginsAnew(t *testing.T) {
	c := newCluster(t)
	s := c.open(t, store.ConfigMapsConfig{})
	c.seed(t, store.PageSize+1)
	var forgets atomic.Int32
	c.Intercept = func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("continue") != "" && forgets.Add(1) <= 2 {
			c.Forget()
		}
		return false
	}
	if keys, err := s.List(t.Context()); err != nil || len(keys) != store.PageSize+1 {
		t.Errorf("%d listed, %v", len(keys), err)
	}
	forgets.Store(-100)
	_, err := s.List(t.Context())
	wantErr(t, err, release.ErrUnavailable)
}

func TestTwoProcessesRaceAndOneWins(t *testing.T) {
	c := newCluster(t)
	s, other := c.two(t)
	doors := []Store{s, other}
	t.Run("for a lock", func(t *testing.T) {
		won := 0
		for _, err := range atOnce(8, func(i int) error {
			r := sample(fmt.Sprint("lock-", i))
			r.Binding.Tracks[i%2].UID = "the same"
			return doors[i%2].Create(soon(t), r)
		}) {
			if err == nil {
				won++
				continue
			}
			wantErr(t, err, release.ErrExists)
		}
		if won != 1 {
			t.Errorf("%d won", won)
		}
	})
	t.Run("for a name", func(t *testing.T) {
		won := 0
		for _, err := range atOnce(8, func(i int) error {
			r := sample("name")
			r.UID = fmt.Sprint(i)
			return doors[i%2].Create(soon(t), r)
		}) {
			if err == nil {
				won++
				continue
			}
			wantErr(t, err, release.ErrExists)
		}
		if won != 1 {
			t.Errorf("%d won", won)
		}
	})
	rec := create(t, s, sample("a"))
	load(t, other, rec.Release.Key)
	t.Run("for a save", func(t *testing.T) {
		won := 0
		for _, err := range atOnce(8, func(i int) error {
			r := rec.Release
			r.Message = fmt.Sprint(i)
			_, err := doors[i%2].Save(soon(t), r, rec.Version)
			return err
		}) {
			if err == nil {
				won++
				continue
			}
			wantErr(t, err, release.ErrConflict)
		}
		if won != 1 {
			t.Errorf("%d won", won)
		}
	})
	t.Run("to append, and all are kept", func(t *testing.T) {
		for _, err := range atOnce(8, func(i int) error {
			_, err := doors[i%2].Append(soon(t), rec.Release.Key, release.Command{Verb: release.VerbAbort, Reason: fmt.Sprint(i)})
			return err
		}) {
			if err != nil {
				t.Error(err)
			}
		}
		if in := load(t, s, rec.Release.Key).Inbox; len(in) != 8 || in[7].Seq != 8 {
			t.Errorf("inbox %+v", in)
		}
	})
	t.Run("a command and a save", func(t *testing.T) {
		rec := load(t, s, rec.Release.Key)
		send(t, other, rec.Release.Key, "the ninth")
		_, err := s.Save(t.Context(), rec.Release, rec.Version)
		wantErr(t, err, release.ErrConflict)
		if in := load(t, s, rec.Release.Key).Inbox; len(in) != 9 {
			t.Errorf("inbox %+v", in)
		}
	})
}

// errLost is what the client gets for an answer that did not come.
var errLost = errors.New("the line was cut")

func TestAWriteWithoutAnAnswerMayHaveBeenMade(t *testing.T) {
	c := newCluster(t)
	s, other := c.two(t)
	rec := create(t, s, sample("a"))
	k := rec.Release.Key
	heard := watch(t, Bench{Store: s})
	c.hook(s, nil, func(r *http.Request) error {
		if puts(r, store.RecordName(k)) {
			return errLost
		}
		return nil
	})
	r := rec.Release
	r.Message = "unknown"
	_, err := s.Save(t.Context(), r, rec.Version)
	wantErr(t, err, release.ErrUnavailable)
	_, err = s.Append(t.Context(), k, release.Command{Verb: release.VerbAbort})
	wantErr(t, err, release.ErrUnavailable)
	c.hook(s, nil, nil)
	if got := next(t, heard); got != k { // a needless look rather than a lost command
		t.Errorf("told of %s", got)
	}
	after := load(t, other, k)
	if after.Release.Message != "unknown" || after.Release.Revision != 2 || len(after.Inbox) != 1 {
		t.Errorf("the record has revision %d and %d commands", after.Release.Revision, len(after.Inbox))
	}
	_, err = s.Save(t.Context(), r, rec.Version)
	wantErr(t, err, release.ErrConflict)
	after = load(t, s, k)
	save(t, s, after.Release, after.Version)
}

func TestACreateThatTheClientSentTwiceIsOne(t *testing.T) {
	for _, method := range []string{http.MethodPost, http.MethodPut} {
		c := newCluster(t)
		s := c.open(t, store.ConfigMapsConfig{})
		create1(t, s, sample("a"))
		name := store.RecordName(sample("b").Key)
		var once atomic.Bool
		twice := func(r *http.Request) error {
			record := puts(r, name) || r.Method == http.MethodPost
			if !record || r.Method != method || once.Swap(true) {
				return nil
			}
			again := r.Clone(r.Context())
			again.Body, _ = r.GetBody()
			resp, err := c.net.RoundTrip(again)
			if err == nil {
				resp.Body.Close()
			}
			return nil
		}
		c.hook(s, twice, nil)
		create1(t, s, sample("b"))
		if !once.Load() {
			t.Fatalf("no %s was sent twice", method)
		}
		if keys, err := s.List(t.Context()); err != nil || len(keys) != 2 {
			t.Errorf("%s: %v, %v", method, keys, err)
		}
	}
}

func TestErrorsSayWhatToDo(t *testing.T) {
	calls := func(s Store) map[string]func() error {
		r := sample("a")
		return map[string]func() error{
			"create": func() error { return s.Create(t.Context(), sample("b")) },
			"load":   func() error { _, err := s.Load(t.Context(), r.Key); return err },
			"save":   func() error { _, err := s.Save(t.Context(), r, "1"); return err },
			"append": func() error { _, err := s.Append(t.Context(), r.Key, release.Command{}); return err },
			"list":   func() error { _, err := s.List(t.Context()); return err },
			"watch":  func() error { _, err := s.Watch(t.Context()); return err },
			"epoch":  func() error { _, err := s.NextEpoch(t.Context()); return err },
		}
	}
	status := func(code int32, reason metav1.StatusReason, details *metav1.StatusDetails) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, _ *http.Request) bool {
			kubetest.Refuse(w, code, reason, "because", details)
			return true
		}
	}
	for name, x := range map[string]struct {
		answer func(http.ResponseWriter, *http.Request) bool
		want   error
		says   string
	}{
		"no right": {
			status(403, metav1.StatusReasonForbidden, &metav1.StatusDetails{Kind: "configmaps"}), release.ErrForbidden,
			"on configmaps in namespace shifter",
		},
		"no credentials": {status(401, metav1.StatusReasonUnauthorized, nil), release.ErrForbidden, "because"},
		"a fault":        {status(500, metav1.StatusReasonInternalError, nil), release.ErrUnavailable, "because"},
		"overloaded":     {status(429, metav1.StatusReasonTooManyRequests, nil), release.ErrUnavailable, "because"},
		"no API server": {func(w http.ResponseWriter, _ *http.Request) bool {
			http.Error(w, "404 page not found", http.StatusNotFound)
			return true
		}, release.ErrUnavailable, "could not find"},
		"no answer": {hang, release.ErrUnavailable, "deadline"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.Intercept = x.answer
			for call, do := range calls(c.open(t, store.ConfigMapsConfig{Timeout: 50 * time.Millisecond})) {
				err := do()
				if !errors.Is(err, x.want) || !strings.Contains(err.Error(), x.says) {
					t.Errorf("%s: %v", call, err)
				}
				if errors.Is(x.want, release.ErrForbidden) && name == "no right" && !strings.Contains(err.Error(), "grant shifter's service account ") {
					t.Errorf("%s: %v", call, err)
				}
			}
		})
	}
}

func TestANamespaceThatIsNotThereIsNamed(t *testing.T) {
	c := newCluster(t)
	c.NoNamespace = func(name string) bool { return name == ns }
	s := c.open(t, store.ConfigMapsConfig{})
	_, epoch := s.NextEpoch(t.Context())
	for _, err := range []error{s.Create(t.Context(), sample("a")), epoch} {
		if !errors.Is(err, release.ErrUnavailable) || errors.Is(err, release.ErrNotFound) || !strings.Contains(err.Error(), "`kubectl create namespace shifter`") {
			t.Errorf("got %v", err)
		}
	}
}

func TestTooMuchForTheServerIsRefused(t *testing.T) {
	for code, reason := range map[int32]metav1.StatusReason{413: metav1.StatusReasonRequestEntityTooLarge, 422: metav1.StatusReasonInvalid} {
		c := newCluster(t)
		s := c.open(t, store.ConfigMapsConfig{})
		rec := create(t, s, sample("a"))
		c.Intercept = func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodPut {
				kubetest.Refuse(w, code, reason, "Too long", &metav1.StatusDetails{})
			}
			return r.Method == http.MethodPut
		}
		_, err := s.Save(t.Context(), rec.Release, rec.Version)
		wantErr(t, err, release.ErrRefused)
		_, err = s.Append(t.Context(), rec.Release.Key, release.Command{})
		wantErr(t, err, release.ErrRefused)
	}
}

func TestARecordThatIsGoneIsNotFound(t *testing.T) {
	c := newCluster(t)
	s := c.open(t, store.ConfigMapsConfig{})
	rec := create(t, s, sample("a"))
	c.Delete(configMaps, ns, store.RecordName(rec.Release.Key))
	_, err := s.Save(t.Context(), rec.Release, rec.Version)
	wantErr(t, err, release.ErrNotFound)
	_, err = s.Append(t.Context(), rec.Release.Key, release.Command{})
	wantErr(t, err, release.ErrNotFound)
	create1(t, s, sample("b")) // its locks are nobody's now, and nothing is in the way
	again := sample("c")
	again.Binding = rec.Release.Binding
	create1(t, s, again)
}

func TestACopyOfARecordIsNone(t *testing.T) {
	c := newCluster(t)
	s := c.open(t, store.ConfigMapsConfig{})
	k := create(t, s, sample("a")).Release.Key
	heard := watch(t, Bench{Store: s})
	o := c.Get(configMaps, ns, store.RecordName(k))
	labels := kubetest.In(o, "metadata", "labels")
	for name, annotations := range map[string]kubetest.Object{"copy": kubetest.In(o, "metadata", "annotations"), "ghost": {"shifter.dev/release": "shop/ghost"}, "bare": {}} {
		o["metadata"] = kubetest.Object{"namespace": ns, "name": name, "labels": labels, "annotations": annotations}
		c.Put("kubectl", configMaps, o)
	}
	create1(t, c.open(t, store.ConfigMapsConfig{}), sample("b"))
	if got := next(t, heard); got != sample("b").Key {
		t.Errorf("told of %s", got)
	}
	// A record whose annotation was lost is still one.
	c.Edit("kubectl", configMaps, ns, store.RecordName(k), func(o kubetest.Object) { delete(kubetest.In(o, "metadata"), "annotations") })
	if got := next(t, heard); got != k {
		t.Errorf("told of %s", got)
	}
	if keys, err := s.List(t.Context()); err != nil || !slices.Equal(keys, []release.Key{k, sample("b").Key}) {
		t.Errorf("listed %v, %v", keys, err)
	}
}

func TestAnEpochThatCannotBeReadIsNeverForgotten(t *testing.T) {
	c := newCluster(t)
	s := c.open(t, store.ConfigMapsConfig{})
	for range 7 {
		epoch(t, s)
	}
	for _, text := range []string{"", "seven", "-1", "18446744073709551616"} {
		c.Edit("kubectl", configMaps, ns, store.EpochName, func(o kubetest.Object) { kubetest.In(o, "data")["epoch"] = text })
		_, err := s.NextEpoch(t.Context())
		_, raise := s.RaiseEpoch(t.Context(), 7, 9)
		for _, err := range []error{err, raise} {
			if err == nil || !strings.Contains(err.Error(), "ConfigMap shifter/shifter-epoch") || !strings.Contains(err.Error(), "write the highest number there") {
				t.Errorf("%q: %v", text, err)
			}
		}
		if got := kubetest.Text(c.Get(configMaps, ns, store.EpochName), "data", "epoch"); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
	c.Edit("kubectl", configMaps, ns, store.EpochName, func(o kubetest.Object) { kubetest.In(o, "data")["epoch"] = "41\n" })
	if e := epoch(t, s); e != 42 {
		t.Errorf("epoch %d after 41", e)
	}
	// Deleted, it begins anew, and who had one is not the last any more.
	c.Delete(configMaps, ns, store.EpochName)
	_, err := s.RaiseEpoch(t.Context(), 42, 50)
	wantErr(t, err, release.ErrFenced)
	own := epoch(t, s)
	if e, err := s.RaiseEpoch(t.Context(), own, 42); e != 43 || err != nil {
		t.Errorf("raised to %d, %v", e, err)
	}
}

func TestAnEpochThatWasDeletedGoesOnAboveThoseInTheRecords(t *testing.T) {
	c := newCluster(t)
	s := c.open(t, store.ConfigMapsConfig{})
	for name, e := range map[string]uint64{"a": 7, "b": 41, "c": 0} {
		r := sample(name)
		r.Epoch = e
		create(t, s, r)
	}
	create(t, s, sample("rubbish"))
	c.bench(s).Put(t, sample("rubbish").Key, []byte("rubbish"))
	if e := epoch(t, s); e != 42 {
		t.Errorf("epoch %d over a record of 41", e)
	}
}

func TestTwoProcessesNeverHaveTheSameEpoch(t *testing.T) {
	c := newCluster(t)
	s, other := c.two(t)
	doors := []Store{s, other}
	got := make([]uint64, 16)
	for i, err := range atOnce(len(got), func(i int) (err error) {
		got[i], err = doors[i%2].NextEpoch(soon(t))
		return err
	}) {
		if err != nil {
			t.Errorf("%d: %v", i, err)
		}
	}
	slices.Sort(got)
	for i, e := range got {
		if e != uint64(i+1) {
			t.Fatalf("epochs %v", got)
		}
	}
}

func TestWhatWasSeenIsNoReasonToRefuse(t *testing.T) {
	c := newCluster(t)
	s, other := c.two(t)
	k := create(t, s, sample("a")).Release.Key
	var err error
	for err == nil {
		_, err = other.Append(t.Context(), k, release.Command{Verb: release.VerbAbort, Reason: strings.Repeat("z", 500)})
	}
	wantErr(t, err, release.ErrRefused)
	rec := load(t, s, k)
	_, err = s.Append(t.Context(), k, release.Command{Reason: strings.Repeat("z", 500)})
	wantErr(t, err, release.ErrRefused)
	load(t, s, k)
	rec.Release.Consumed = rec.Inbox[len(rec.Inbox)-1].Seq
	save(t, other, rec.Release, rec.Version)
	send(t, s, k, "there is room by now")
	rec = load(t, other, k)
	load(t, s, k)
	save(t, other, ended(rec.Release), rec.Version)
	_, err = s.Append(t.Context(), k, release.Command{})
	var end *store.Ended
	if !errors.As(err, &end) {
		t.Errorf("got %v", err)
	}
}

func TestAnAppendThatAlwaysLosesEndsWithItsContext(t *testing.T) {
	c := newCluster(t)
	s, other := c.two(t)
	k := create(t, s, sample("a")).Release.Key
	c.hook(s, func(r *http.Request) error {
		if puts(r, store.RecordName(k)) {
			c.Edit("kubectl", configMaps, ns, store.RecordName(k), func(o kubetest.Object) {
				kubetest.In(o, "metadata")["annotations"] = kubetest.Object{"at": time.Now().String()}
			})
		}
		return nil
	}, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := s.Append(ctx, k, release.Command{})
	wantErr(t, err, release.ErrUnavailable)
	wantErr(t, err, context.DeadlineExceeded)
	if n := len(c.Asked(http.MethodPut)); n > 60 {
		t.Errorf("%d writes in a tenth of a second", n)
	}
	if in := load(t, other, k).Inbox; len(in) != 0 {
		t.Errorf("inbox %+v", in)
	}
}
