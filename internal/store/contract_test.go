package store_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shifter-dev/shifter/internal/engine"
	"github.com/shifter-dev/shifter/internal/release"
	"github.com/shifter-dev/shifter/internal/server"
	"github.com/shifter-dev/shifter/internal/store"
)

// Store is what every store can do.
type Store interface {
	Create(ctx context.Context, r release.Release) error
	Load(ctx context.Context, k release.Key) (release.Record, error)
	Save(ctx context.Context, r release.Release, v release.Version) (release.Version, error)
	Append(ctx context.Context, k release.Key, c release.Command) (release.Command, error)
	List(ctx context.Context) ([]release.Key, error)
	Watch(ctx context.Context) (<-chan release.Key, error)
	NextEpoch(ctx context.Context) (uint64, error)
	RaiseEpoch(ctx context.Context, own, above uint64) (uint64, error)
}

// Both fit the ports that they are for.
var (
	_ Store           = (*store.Memory)(nil)
	_ Store           = (*store.ConfigMaps)(nil)
	_ engine.Journal  = Store(nil)
	_ server.Releases = Store(nil)
)

// Bench is an empty store, with a way to put bytes where a record lies.
type Bench struct {
	Store
	Put func(t *testing.T, k release.Key, data []byte)
	Get func(t *testing.T, k release.Key) []byte
}

// Contract is what every store must do. open makes an empty one for each test.
func Contract(t *testing.T, open func(t *testing.T) Bench) {
	for _, c := range []struct {
		sentence string
		test     func(t *testing.T, b Bench)
	}{
		{"what is created is read as it was written", readsWhatWasWritten},
		{"a name is used once, even after the end", namesAreUsedOnce},
		{"a lock of a release that has not ended is refused, and its holder named", locksAreRefused},
		{"of many that create over one lock at once, one wins", oneWinsALock},
		{"a save over an old version is a conflict and changes nothing", staleSavesConflict},
		{"a save raises the revision and drops what was consumed", savesDropWhatWasConsumed},
		{"of many that save over one version at once, one wins", oneWinsASave},
		{"a release that has ended takes no save and no command", endedIsInert},
		{"a save of another release under the same name is refused", othersAreRefused},
		{"a record above the limit is refused and the old one stays", largeRecordsAreRefused},
		{"a number that JSON cannot hold is refused and the old record stays", oddNumbersAreRefused},
		{"what was read shares no memory with the store", nothingIsShared},
		{"commands are numbered one after the other, whoever sends them", commandsAreNumbered},
		{"numbers of commands go on after the inbox was emptied", numbersGoOn},
		{"a command moves the version", commandsMoveTheVersion},
		{"a flood of commands is refused and does not keep the engine from saving", floodsAreRefused},
		{"what is not there is not found", absentIsNotFound},
		{"what cannot be read is named and spoils nothing else", poisonIsNamed},
		{"a watcher hears of what was created and commanded", watchersHear},
		{"a watcher does not hear of saves", savesAreNotTold},
		{"many changes of a release are one for a slow watcher, and no writer waits", slowWatchersGetOne},
		{"a watch ends with its context", watchesEnd},
		{"an epoch is above all before it, whoever asks", epochsRise},
		{"an epoch is raised above another for the last writer only", lastWritersRaise},
		{"of many that raise one epoch at once, one wins", oneWinsARaise},
		{"a call whose context has ended says that there is no answer", endedContextsAreUnavailable},
	} {
		t.Run(c.sentence, func(t *testing.T) { c.test(t, open(t)) })
	}
}

// sample is a release with something in every corner that a store must keep.
func sample(name string) release.Release {
	at := time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.UTC)
	k := release.Key{Namespace: "shop", Name: name}
	spec := release.Spec{
		Routes: []release.RouteRef{{Kind: "HTTPRoute", Namespace: "shop", Name: name}},
		Tracks: [2]release.TrackSpec{{Service: "p", Deployment: "p"}, {Service: "c", Deployment: "c"}},
	}.WithDefaults()
	b := release.Binding{Key: k, Full: 4, Scrape: time.Second}
	b.Routes = []release.BoundRoute{{Ref: spec.Routes[0], UID: "route-" + name, Rules: []string{"0"}, Split: []release.Pair{{Primary: 0, Canary: 100}}}}
	for t := range b.Tracks {
		b.Tracks[t] = release.BoundTrack{
			Namespace: "shop", Deployment: release.Track(t).String(), UID: fmt.Sprintf("track-%d-%s", t, name), Replicas: 4,
			Template: release.Template{Hash: fmt.Sprintf("h%d", t), Images: map[string]string{"app": "app:2"}},
		}
	}
	r := release.New(k, "uid-"+name, spec, b, "alice", at)
	r.Intent = release.Actions{
		release.SetShare{Route: spec.Routes[0], UID: "route-" + name, From: []release.Pair{{Canary: 100}}, To: []release.Pair{{Primary: 10, Canary: 90}}},
		release.Scale{Track: release.Canary, Replicas: 3},
	}
	return r
}

func create(t *testing.T, s Store, r release.Release) release.Record {
	t.Helper()
	if err := s.Create(t.Context(), r); err != nil {
		t.Fatalf("create %s: %v", r.Key, err)
	}
	return load(t, s, r.Key)
}

func load(t *testing.T, s Store, k release.Key) release.Record {
	t.Helper()
	rec, err := s.Load(t.Context(), k)
	if err != nil {
		t.Fatalf("load %s: %v", k, err)
	}
	return rec
}

func save(t *testing.T, s Store, r release.Release, v release.Version) release.Version {
	t.Helper()
	v, err := s.Save(t.Context(), r, v)
	if err != nil {
		t.Fatalf("save %s: %v", r.Key, err)
	}
	return v
}

func send(t *testing.T, s Store, k release.Key, reason string) release.Command {
	t.Helper()
	c, err := s.Append(t.Context(), k, release.Command{Verb: release.VerbAbort, Reason: reason, Subject: "bob"})
	if err != nil {
		t.Fatalf("append to %s: %v", k, err)
	}
	return c
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func wantErr(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error %v, want one that is %q", err, want)
	}
}

func readsWhatWasWritten(t *testing.T, b Bench) {
	r := sample("a")
	rec := create(t, b, r)
	r.Revision = 1
	// Once through JSON, since a zero Gate is written in more than one way.
	var want release.Release
	if err := json.Unmarshal([]byte(asJSON(t, r)), &want); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(rec.Release, want) {
		t.Errorf("read\n%s\nwrote\n%s", asJSON(t, rec.Release), asJSON(t, r))
	}
	if !reflect.DeepEqual(rec.Release.Intent, r.Intent) {
		t.Errorf("intent read %v, wrote %v", rec.Release.Intent, r.Intent)
	}
	if len(rec.Inbox) != 0 {
		t.Errorf("a new release has %d commands", len(rec.Inbox))
	}
}

func ended(r release.Release) release.Release {
	r.Phase = release.Succeeded
	return r
}

func namesAreUsedOnce(t *testing.T, b Bench) {
	for _, end := range []bool{false, true} {
		rec := load2(t, b, sample("a"))
		if end {
			save(t, b, ended(rec.Release), rec.Version)
		}
		again := sample("a")
		again.Binding.Routes[0].UID, again.Binding.Tracks[0].UID, again.Binding.Tracks[1].UID = "x", "y", "z"
		err := b.Create(t.Context(), again)
		wantErr(t, err, release.ErrExists)
		var taken *store.Taken
		if !errors.As(err, &taken) || taken.HeldBy() != again.Key || taken.Lock != "" {
			t.Errorf("error %#v does not name %s", err, again.Key)
		}
	}
}

// load2 creates a release if it is not there yet.
func load2(t *testing.T, b Bench, r release.Release) release.Record {
	t.Helper()
	if rec, err := b.Load(t.Context(), r.Key); err == nil {
		return rec
	}
	return create(t, b, r)
}

func locksAreRefused(t *testing.T, b Bench) {
	holder := create(t, b, sample("a"))
	for _, lock := range holder.Release.Binding.Locks() {
		other := sample("b")
		switch uid := strings.SplitN(lock, "/", 2)[1]; {
		case strings.HasPrefix(lock, "route/"):
			other.Binding.Routes[0].UID = uid
		case uid == holder.Release.Binding.Tracks[0].UID:
			other.Binding.Tracks[1].UID = uid // the other way round is the same lock
		default:
			other.Binding.Tracks[0].UID = uid
		}
		err := b.Create(t.Context(), other)
		wantErr(t, err, release.ErrExists)
		var taken *store.Taken
		if !errors.As(err, &taken) || taken.HeldBy() != holder.Release.Key || taken.Lock != lock {
			t.Errorf("error %v does not say that %s has %s", err, holder.Release.Key, lock)
		}
	}
	v := save(t, b, holder.Release, holder.Version)
	other := sample("b")
	other.Binding = holder.Release.Binding
	if err := b.Create(t.Context(), other); !errors.Is(err, release.ErrExists) {
		t.Fatalf("after a save the locks are free: %v", err)
	}
	rec := load(t, b, holder.Release.Key)
	save(t, b, ended(rec.Release), v)
	create(t, b, other)
}

// atOnce runs a function in many goroutines and returns the errors.
func atOnce(n int, f func(i int) error) []error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = f(i) })
	}
	wg.Wait()
	return errs
}

func oneWinsALock(t *testing.T, b Bench) {
	lock := sample("lock").Binding
	errs := atOnce(8, func(i int) error {
		r := sample(fmt.Sprint("r", i))
		r.Binding.Routes[0].UID = lock.Routes[0].UID
		return b.Create(t.Context(), r)
	})
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
			continue
		}
		wantErr(t, err, release.ErrExists)
	}
	if won != 1 {
		t.Errorf("%d won", won)
	}
	if keys, _ := b.List(t.Context()); len(keys) != 1 {
		t.Errorf("records %v", keys)
	}
}

func staleSavesConflict(t *testing.T, b Bench) {
	rec := create(t, b, sample("a"))
	r := rec.Release
	r.Message = "first"
	save(t, b, r, rec.Version)
	before := load(t, b, r.Key)
	r.Message = "second"
	_, err := b.Save(t.Context(), r, rec.Version)
	wantErr(t, err, release.ErrConflict)
	if after := load(t, b, r.Key); after.Version != before.Version || after.Release.Message != "first" {
		t.Errorf("a refused save left %q at %q", after.Release.Message, after.Version)
	}
	_, err = b.Save(t.Context(), r, "no such version")
	wantErr(t, err, release.ErrConflict)
}

func savesDropWhatWasConsumed(t *testing.T, b Bench) {
	r := create(t, b, sample("a")).Release
	for i := range 3 {
		send(t, b, r.Key, fmt.Sprint(i))
	}
	rec := load(t, b, r.Key)
	r.Consumed = 2
	r.Revision = 77 // the store counts, whatever the engine thinks
	v := save(t, b, r, rec.Version)
	after := load(t, b, r.Key)
	if after.Version != v || after.Release.Revision != 2 {
		t.Errorf("revision %d, version %q after %q", after.Release.Revision, after.Version, v)
	}
	if len(after.Inbox) != 1 || after.Inbox[0].Seq != 3 || after.Inbox[0].Reason != "2" {
		t.Errorf("inbox %+v", after.Inbox)
	}
}

func oneWinsASave(t *testing.T, b Bench) {
	rec := create(t, b, sample("a"))
	won := 0
	for _, err := range atOnce(8, func(i int) error {
		r := rec.Release
		r.Message = fmt.Sprint(i)
		_, err := b.Save(t.Context(), r, rec.Version)
		return err
	}) {
		if err == nil {
			won++
			continue
		}
		wantErr(t, err, release.ErrConflict)
	}
	if rev := load(t, b, rec.Release.Key).Release.Revision; won != 1 || rev != 2 {
		t.Errorf("%d won, revision %d", won, rev)
	}
}

func endedIsInert(t *testing.T, b Bench) {
	rec := create(t, b, sample("a"))
	v := save(t, b, ended(rec.Release), rec.Version)
	_, err := b.Append(t.Context(), rec.Release.Key, release.Command{Verb: release.VerbAbort})
	wantErr(t, err, release.ErrRefused)
	var end *store.Ended
	if !errors.As(err, &end) || end.Phase != release.Succeeded || end.Key != rec.Release.Key {
		t.Errorf("error %v does not say how %s ended", err, rec.Release.Key)
	}
	_, err = b.Save(t.Context(), rec.Release, v)
	wantErr(t, err, release.ErrRefused)
	if got := load(t, b, rec.Release.Key); got.Release.Phase != release.Succeeded || got.Version != v {
		t.Errorf("an ended release became %s", got.Release.Phase)
	}
}

func othersAreRefused(t *testing.T, b Bench) {
	rec := create(t, b, sample("a"))
	r := rec.Release
	r.UID = "another"
	_, err := b.Save(t.Context(), r, rec.Version)
	wantErr(t, err, release.ErrRefused)
}

func largeRecordsAreRefused(t *testing.T, b Bench) {
	rec := create(t, b, sample("a"))
	r := rec.Release
	r.Message = strings.Repeat("x", store.MaxRecord)
	_, err := b.Save(t.Context(), r, rec.Version)
	wantErr(t, err, release.ErrRefused)
	if got := load(t, b, r.Key); got.Version != rec.Version || got.Release.Message != "" {
		t.Error("a refused save changed the record")
	}
	big := sample("b")
	big.Message = r.Message
	err = b.Create(t.Context(), big)
	wantErr(t, err, release.ErrRefused)
	_, err = b.Load(t.Context(), big.Key)
	wantErr(t, err, release.ErrNotFound)
	// As large as may be, with a full inbox, is still within the limit.
	r.Message = strings.Repeat("x", store.MaxRecord-store.MaxInbox-2<<10-len(asJSON(t, rec.Release)))
	save(t, b, r, rec.Version)
	for err == nil || errors.Is(err, release.ErrNotFound) {
		_, err = b.Append(t.Context(), r.Key, release.Command{Verb: release.VerbAbort, Reason: strings.Repeat("y", 100)})
	}
	wantErr(t, err, release.ErrRefused)
	if n := len(b.Get(t, r.Key)); n > store.MaxRecord {
		t.Errorf("a record of %d bytes", n)
	}
}

func oddNumbersAreRefused(t *testing.T, b Bench) {
	rec := create(t, b, sample("a"))
	r := rec.Release
	zero := 0.0
	r.Target = zero / zero
	_, err := b.Save(t.Context(), r, rec.Version)
	wantErr(t, err, release.ErrRefused)
	if got := load(t, b, r.Key); got.Version != rec.Version {
		t.Error("a refused save changed the record")
	}
}

func nothingIsShared(t *testing.T, b Bench) {
	r := sample("a")
	rec := create(t, b, r)
	want := asJSON(t, rec.Release)
	send(t, b, r.Key, "kept")
	for _, x := range []release.Release{r, rec.Release, load(t, b, r.Key).Release} {
		x.Spec.Steps[0] = 99
		x.Binding.Routes[0].UID = "spoilt"
		x.Binding.Tracks[0].Template.Images["app"] = "spoilt"
		x.History[0].Text = "spoilt"
	}
	first := load(t, b, r.Key)
	first.Inbox[0].Reason = "spoilt"
	again := load(t, b, r.Key)
	if got := asJSON(t, again.Release); got != want || again.Inbox[0].Reason != "kept" {
		t.Errorf("the store now has\n%s\nand not\n%s", got, want)
	}
}

func commandsAreNumbered(t *testing.T, b Bench) {
	a, other := create(t, b, sample("a")).Release.Key, create(t, b, sample("b")).Release.Key
	var mu sync.Mutex
	var seqs []uint64
	for _, err := range atOnce(8, func(i int) error {
		for j := range 3 {
			c, err := b.Append(t.Context(), a, release.Command{Verb: release.VerbAbort, Reason: fmt.Sprint(i, j)})
			if err != nil {
				return err
			}
			mu.Lock()
			seqs = append(seqs, c.Seq)
			mu.Unlock()
		}
		return nil
	}) {
		if err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(seqs)
	for i, s := range seqs {
		if s != uint64(i+1) {
			t.Fatalf("numbers %v", seqs)
		}
	}
	in := load(t, b, a).Inbox
	for i, c := range in {
		if c.Seq != uint64(i+1) {
			t.Fatalf("inbox in the order %+v", in)
		}
	}
	if len(in) != 24 {
		t.Errorf("%d of 24 commands are kept", len(in))
	}
	if c := send(t, b, other, "x"); c.Seq != 1 || c.Subject != "bob" || c.Reason != "x" {
		t.Errorf("the first command of another release: %+v", c)
	}
}

func numbersGoOn(t *testing.T, b Bench) {
	r := create(t, b, sample("a")).Release
	send(t, b, r.Key, "1")
	rec := load(t, b, r.Key)
	rec.Release.Consumed = 1
	save(t, b, rec.Release, rec.Version)
	if rec = load(t, b, r.Key); len(rec.Inbox) != 0 {
		t.Fatalf("inbox %+v", rec.Inbox)
	}
	if c := send(t, b, r.Key, "2"); c.Seq != 2 {
		t.Errorf("the second command has number %d", c.Seq)
	}
}

func commandsMoveTheVersion(t *testing.T, b Bench) {
	rec := create(t, b, sample("a"))
	send(t, b, rec.Release.Key, "now")
	_, err := b.Save(t.Context(), rec.Release, rec.Version)
	wantErr(t, err, release.ErrConflict)
	again := load(t, b, rec.Release.Key)
	if again.Release.Revision != rec.Release.Revision || len(again.Inbox) != 1 {
		t.Errorf("revision %d and %d commands after an append", again.Release.Revision, len(again.Inbox))
	}
	save(t, b, again.Release, again.Version)
}

func floodsAreRefused(t *testing.T, b Bench) {
	r := create(t, b, sample("a")).Release
	var err error
	n := 0
	for ; err == nil && n < 10_000; n++ {
		_, err = b.Append(t.Context(), r.Key, release.Command{Verb: release.VerbAbort, Reason: strings.Repeat("z", 200)})
	}
	wantErr(t, err, release.ErrRefused)
	rec := load(t, b, r.Key)
	if len(rec.Inbox) != n-1 || n < 8 {
		t.Errorf("%d commands kept of %d accepted", len(rec.Inbox), n-1)
	}
	rec.Release.Consumed = rec.Inbox[len(rec.Inbox)-1].Seq
	save(t, b, rec.Release, rec.Version)
	send(t, b, r.Key, "after")
}

func absentIsNotFound(t *testing.T, b Bench) {
	k := release.Key{Namespace: "shop", Name: "none"}
	_, err := b.Load(t.Context(), k)
	wantErr(t, err, release.ErrNotFound)
	_, err = b.Save(t.Context(), sample("none"), "1")
	wantErr(t, err, release.ErrNotFound)
	_, err = b.Append(t.Context(), k, release.Command{})
	wantErr(t, err, release.ErrNotFound)
	if keys, err := b.List(t.Context()); err != nil || len(keys) != 0 {
		t.Errorf("an empty store lists %v, %v", keys, err)
	}
}

func poisonIsNamed(t *testing.T, b Bench) {
	good := create(t, b, sample("good"))
	bad := create(t, b, sample("bad")).Release
	whole := string(b.Get(t, bad.Key))
	for what, data := range map[string]string{
		"broken JSON":            whole[:len(whole)/2],
		"nothing":                "",
		"an unknown schema":      strings.Replace(whole, `"schema":1`, `"schema":9`, 1),
		"an unknown release":     strings.Replace(whole, `"release":{"schema":1`, `"release":{"schema":9`, 1),
		"an unknown action kind": strings.Replace(whole, `"kind":"Scale"`, `"kind":"Teleport"`, 1),
		"an unknown phase":       strings.Replace(whole, `"phase":"pending"`, `"phase":"dreaming"`, 1),
		"another's record":       strings.Replace(whole, `"name":"bad"`, `"name":"worse"`, 1),
	} {
		if data == whole {
			t.Fatalf("%s: the record was not changed", what)
		}
		b.Put(t, bad.Key, []byte(data))
		_, err := b.Load(t.Context(), bad.Key)
		var corrupt *store.Corrupt
		if !errors.As(err, &corrupt) || corrupt.Key != bad.Key || !strings.Contains(err.Error(), bad.Key.String()) || !corrupt.Unreadable() {
			t.Errorf("%s: error %v does not name %s", what, err, bad.Key)
		}
		if _, err := b.Append(t.Context(), bad.Key, release.Command{}); !errors.As(err, &corrupt) {
			t.Errorf("%s: append: %v", what, err)
		}
	}
	keys, err := b.List(t.Context())
	if err != nil || !slices.Equal(keys, []release.Key{bad.Key, good.Release.Key}) {
		t.Errorf("list %v, %v", keys, err)
	}
	rec := load(t, b, good.Release.Key)
	save(t, b, rec.Release, rec.Version)
	send(t, b, rec.Release.Key, "still")
	create(t, b, sample("new"))
}

// next waits for a key in real time; a store may take a moment to tell.
func next(t *testing.T, c <-chan release.Key) release.Key {
	t.Helper()
	select {
	case k := <-c:
		return k
	case <-time.After(5 * time.Second):
		t.Fatal("nothing was told")
		return release.Key{}
	}
}

func watch(t *testing.T, b Bench) <-chan release.Key {
	t.Helper()
	c, err := b.Watch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func watchersHear(t *testing.T, b Bench) {
	first, second := watch(t, b), watch(t, b)
	k := create(t, b, sample("a")).Release.Key
	for _, c := range []<-chan release.Key{first, second} {
		if got := next(t, c); got != k {
			t.Errorf("told of %s", got)
		}
	}
	send(t, b, k, "x")
	for _, c := range []<-chan release.Key{first, second} {
		if got := next(t, c); got != k {
			t.Errorf("told of %s", got)
		}
	}
}

func savesAreNotTold(t *testing.T, b Bench) {
	rec := create(t, b, sample("a"))
	c := watch(t, b)
	save(t, b, rec.Release, rec.Version)
	other := create(t, b, sample("b")).Release.Key
	if got := next(t, c); got != other {
		t.Errorf("told of %s before %s", got, other)
	}
}

func slowWatchersGetOne(t *testing.T, b Bench) {
	a, z := create(t, b, sample("a")).Release.Key, create(t, b, sample("z")).Release.Key
	c := watch(t, b)
	for i := range 20 {
		send(t, b, a, fmt.Sprint(i))
	}
	send(t, b, z, "last")
	got := map[release.Key]int{}
	for got[z] == 0 {
		got[next(t, c)]++
	}
	if got[a] < 1 || got[a] > 2 { // one may have been on its way already
		t.Errorf("told %d times of 20 changes", got[a])
	}
}

func watchesEnd(t *testing.T, b Bench) {
	ctx, cancel := context.WithCancel(t.Context())
	c, err := b.Watch(ctx)
	if err != nil {
		t.Fatal(err)
	}
	create(t, b, sample("a")) // nobody takes it
	cancel()
	for range c { // until it is closed
	}
	create(t, b, sample("b"))
}

func epochsRise(t *testing.T, b Bench) {
	var mu sync.Mutex
	seen := map[uint64]bool{0: true}
	for _, err := range atOnce(8, func(int) error {
		for range 5 {
			e, err := b.NextEpoch(t.Context())
			if err != nil {
				return err
			}
			mu.Lock()
			if seen[e] {
				mu.Unlock()
				return fmt.Errorf("epoch %d was given twice", e)
			}
			seen[e] = true
			mu.Unlock()
		}
		return nil
	}) {
		if err != nil {
			t.Error(err)
		}
	}
	last, err := b.NextEpoch(t.Context())
	for e := range seen {
		if e >= last {
			t.Errorf("epoch %d after %d, %v", last, e, err)
		}
	}
}

func epoch(t *testing.T, s Store) uint64 {
	t.Helper()
	e, err := s.NextEpoch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func lastWritersRaise(t *testing.T, b Bench) {
	first := epoch(t, b)
	own := epoch(t, b)
	for _, above := range []uint64{0, first, own - 1} {
		if e, err := b.RaiseEpoch(t.Context(), own, above); e != own || err != nil {
			t.Errorf("raised above %d, which %d is already: %d, %v", above, own, e, err)
		}
	}
	_, err := b.RaiseEpoch(t.Context(), first, 41)
	wantErr(t, err, release.ErrFenced)
	_, err = b.RaiseEpoch(t.Context(), first, 0)
	wantErr(t, err, release.ErrFenced)
	_, err = b.RaiseEpoch(t.Context(), own, math.MaxUint64)
	wantErr(t, err, release.ErrRefused)
	for _, above := range []uint64{own, 41, math.MaxInt64} {
		raised, err := b.RaiseEpoch(t.Context(), own, above)
		if raised != above+1 || err != nil {
			t.Fatalf("raised above %d: %d, %v", above, raised, err)
		}
		_, err = b.RaiseEpoch(t.Context(), own, above)
		wantErr(t, err, release.ErrFenced)
		own = raised
	}
	if e := epoch(t, b); e != own+1 {
		t.Errorf("epoch %d after %d", e, own)
	}
	_, err = b.RaiseEpoch(t.Context(), own, 50)
	wantErr(t, err, release.ErrFenced)
}

func oneWinsARaise(t *testing.T, b Bench) {
	own := epoch(t, b)
	won := 0
	for _, err := range atOnce(8, func(i int) error {
		_, err := b.RaiseEpoch(t.Context(), own, own+uint64(i))
		return err
	}) {
		if err == nil {
			won++
			continue
		}
		wantErr(t, err, release.ErrFenced)
	}
	if won != 1 {
		t.Errorf("%d won", won)
	}
}

func endedContextsAreUnavailable(t *testing.T, b Bench) {
	rec := create(t, b, sample("a"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	k := rec.Release.Key
	calls := map[string]func() error{
		"create": func() error { return b.Create(ctx, sample("b")) },
		"load":   func() error { _, err := b.Load(ctx, k); return err },
		"save":   func() error { _, err := b.Save(ctx, rec.Release, rec.Version); return err },
		"append": func() error { _, err := b.Append(ctx, k, release.Command{}); return err },
		"list":   func() error { _, err := b.List(ctx); return err },
		"watch":  func() error { _, err := b.Watch(ctx); return err },
		"epoch":  func() error { _, err := b.NextEpoch(ctx); return err },
		"raise":  func() error { _, err := b.RaiseEpoch(ctx, 0, 1); return err },
	}
	for name, call := range calls {
		if err := call(); !errors.Is(err, release.ErrUnavailable) || !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := load(t, b, k); got.Version != rec.Version {
		t.Error("a call that was given up changed the record")
	}
}
