package store_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shifter-dev/shifter/internal/kubetest"
	"github.com/shifter-dev/shifter/internal/release"
	"github.com/shifter-dev/shifter/internal/store"
)

func isWatch(r *http.Request) bool { return r.URL.Query().Get("watch") != "" }

func hears(t *testing.T, c <-chan release.Key, want release.Key, what string) {
	t.Helper()
	if got := next(t, c); got != want {
		t.Fatalf("told of %s instead of %s: %s", got, want, what)
	}
}

func TestAWatchTellsOfWhatOthersDo(t *testing.T) {
	c := newCluster(t)
	s, other := c.two(t)
	heard := watch(t, Bench{Store: s})
	k := sample("a").Key
	create1(t, other, sample("a"))
	hears(t, heard, k, "a creation")
	send(t, other, k, "x")
	hears(t, heard, k, "a command")
	rec := load(t, other, k)
	save(t, other, rec.Release, rec.Version)
	hears(t, heard, k, "a save")
	load(t, s, k)
	c.bench(s).Put(t, k, []byte("rubbish"))
	hears(t, heard, k, "an edit by hand")
	c.Delete(configMaps, ns, store.RecordName(k))
	hears(t, heard, k, "a deletion")
	if n := s.Seen(); n != 0 {
		t.Errorf("%d records are kept of what is gone", n)
	}
	_, err := s.Load(t.Context(), k)
	wantErr(t, err, release.ErrNotFound)

	// A label that was taken off is as good as a deletion, and the record is there.
	create1(t, other, sample("b"))
	hears(t, heard, sample("b").Key, "another creation")
	c.Edit("kubectl", configMaps, ns, store.RecordName(sample("b").Key), func(o kubetest.Object) { delete(kubetest.In(o, "metadata"), "labels") })
	hears(t, heard, sample("b").Key, "a lost label")
	rec = load(t, s, sample("b").Key)
	rec.Version = save(t, s, rec.Release, rec.Version) // and brings it back
	save(t, s, rec.Release, rec.Version)
	create1(t, s, sample("c"))
	hears(t, heard, sample("c").Key, "an own creation, and no own save before it")
}

// TestAnEchoThatComesBeforeTheAnswerIsKnown holds the answer to a save back until
// its event has come.
func TestAnEchoThatComesBeforeTheAnswerIsKnown(t *testing.T) {
	c := newCluster(t)
	s, other := c.two(t)
	a, b := create(t, s, sample("a")), create(t, s, sample("b")).Release.Key
	k := a.Release.Key
	heard := watch(t, Bench{Store: s})
	for _, command := range []bool{false, true} {
		made, answer, saved := make(chan bool), make(chan bool), make(chan error, 1)
		c.hook(s, nil, func(r *http.Request) error {
			if puts(r, store.RecordName(k)) {
				close(made)
				<-answer
			}
			return nil
		})
		go func() {
			var err error
			a.Version, err = s.Save(soon(t), a.Release, a.Version)
			saved <- err
		}()
		<-made
		if command {
			send(t, other, k, "in between")
		}
		send(t, other, b, "x")
		hears(t, heard, b, "what came after the echo")
		close(answer)
		if err := <-saved; err != nil {
			t.Fatal(err)
		}
		c.hook(s, nil, nil)
		if command {
			hears(t, heard, k, "the command that came while the save was under way")
		}
		send(t, other, b, "y")
		hears(t, heard, b, "nothing else of the save")
	}
}

func TestAWatchThatTheServerEndsGoesOnWhereItStood(t *testing.T) {
	c := newCluster(t)
	s, other := c.two(t)
	k := create(t, other, sample("a")).Release.Key
	heard := watch(t, Bench{Store: s})
	c.watches(t, 1)
	send(t, other, k, "x")
	hears(t, heard, k, "a command")
	for i := range 3 {
		c.hook(s, func(r *http.Request) error {
			if isWatch(r) {
				send(t, other, k, "while nobody watches")
			}
			return nil
		}, nil)
		c.Cut()
		c.watches(t, i+2)
		hears(t, heard, k, "a command of the gap")
	}
	c.hook(s, nil, nil)
	// A bookmark counts as news.
	c.Put("x", configMaps, kubetest.Object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": kubetest.Object{"namespace": ns, "name": "theirs"}})
	c.Bookmark(configMaps, "ConfigMap")
	c.Cut()
	c.watches(t, 5)
	send(t, other, k, "y")
	hears(t, heard, k, "a command after a bookmark")
	for _, r := range c.Asked(http.MethodGet) {
		if q := r.Query; q.Get("watch") != "" && (q.Get("allowWatchBookmarks") != "true" || q.Get("timeoutSeconds") == "" || q.Get("resourceVersion") == "") {
			t.Errorf("watched with %v", q)
		}
	}
}

func TestAWatchThatIsBrokenClosesTheChannel(t *testing.T) {
	for what, breaks := range map[string]func(t *testing.T, c *cluster, s, other *store.ConfigMaps, heard <-chan release.Key){
		"it ends before it has brought anything": func(_ *testing.T, c *cluster, _, _ *store.ConfigMaps, _ <-chan release.Key) { c.Cut() },
		"where it stood is forgotten": func(t *testing.T, c *cluster, s, other *store.ConfigMaps, heard <-chan release.Key) {
			k := sample("a").Key
			send(t, other, k, "x")
			hears(t, heard, k, "a command")
			c.hook(s, func(r *http.Request) error {
				if isWatch(r) {
					send(t, other, k, "y")
					c.Forget()
				}
				return nil
			}, nil)
			c.Cut()
		},
		"it cannot be taken up": func(t *testing.T, c *cluster, s, other *store.ConfigMaps, heard <-chan release.Key) {
			k := sample("a").Key
			send(t, other, k, "x")
			hears(t, heard, k, "a command")
			c.hook(s, func(*http.Request) error { return errLost }, nil)
			c.Cut()
		},
	} {
		t.Run(what, func(t *testing.T) {
			c := newCluster(t)
			s, other := c.two(t)
			create1(t, other, sample("a"))
			heard := watch(t, Bench{Store: s})
			c.watches(t, 1)
			breaks(t, c, s, other, heard)
			closed(t, heard)
			c.hook(s, nil, nil)
			again := watch(t, Bench{Store: s})
			send(t, other, sample("a").Key, "z")
			hears(t, again, sample("a").Key, "the next watch")
		})
	}
}

func TestAWatchThatIsNotAnsweredIsGivenUp(t *testing.T) {
	c := newCluster(t)
	c.Intercept = func(w http.ResponseWriter, r *http.Request) bool { return isWatch(r) && hang(w, r) }
	s := c.open(t, store.ConfigMapsConfig{Timeout: 50 * time.Millisecond})
	_, err := s.Watch(t.Context())
	wantErr(t, err, release.ErrUnavailable)
}

// follower does with a store what the engine does: watch, list, load, and load
// again what is told; when the channel is closed, all over.
func follower(ctx context.Context, s Store, seen func(release.Record)) error {
	look := func(k release.Key) error {
		rec, err := s.Load(ctx, k)
		if err == nil {
			seen(rec)
		}
		return err
	}
	for {
		heard, err := s.Watch(ctx)
		if err == nil {
			var keys []release.Key
			keys, err = s.List(ctx)
			for _, k := range keys {
				err = errors.Join(err, look(k))
			}
		}
		if err == nil {
			for k := range heard {
				err = errors.Join(err, look(k))
			}
		}
		select {
		case <-ctx.Done():
			return nil
		default:
		}
		if err != nil {
			return err
		}
	}
}

// TestNoCommandIsLostWhateverBecomesOfTheWatch sends commands from the own and
// from another process while the watch is cut and forgotten again and again and
// the follower saves, and waits until the follower knows the last of each.
func TestNoCommandIsLostWhateverBecomesOfTheWatch(t *testing.T) {
	const releases, commands = 3, 40
	c := newCluster(t)
	s, other := c.two(t)
	for i := range releases {
		create1(t, other, sample(fmt.Sprint("r", i)))
	}
	ctx, cancel := context.WithCancel(t.Context())
	var mu sync.Mutex
	known := map[release.Key]uint64{}
	all := make(chan bool)
	var once sync.Once
	var ends sync.WaitGroup
	ends.Go(func() {
		err := follower(ctx, s, func(rec release.Record) {
			// The engine consumes; a conflict means that it will be told again.
			if n := len(rec.Inbox); n > 0 {
				rec.Release.Consumed = rec.Inbox[n-1].Seq
				if _, err := s.Save(ctx, rec.Release, rec.Version); err != nil {
					if !errors.Is(err, release.ErrConflict) && ctx.Err() == nil {
						t.Error(err)
					}
					return
				}
			}
			mu.Lock()
			defer mu.Unlock()
			known[rec.Release.Key] = max(known[rec.Release.Key], rec.Release.Consumed)
			total := uint64(0)
			for _, n := range known {
				total += n
			}
			if total == releases*commands {
				once.Do(func() { close(all) })
			}
		})
		if err != nil {
			t.Error(err)
		}
	})
	var sent atomic.Int32
	var senders sync.WaitGroup
	for i := range releases {
		senders.Go(func() {
			for j := range commands {
				door := []Store{s, other}[j%2]
				if _, err := door.Append(ctx, sample(fmt.Sprint("r", i)).Key, release.Command{Verb: release.VerbAbort}); err != nil {
					t.Error(err)
					return
				}
				switch n := sent.Add(1); {
				case n%29 == 0:
					c.Forget()
					c.Cut()
				case n%7 == 0 && rand.N(2) == 0:
					c.Cut()
				}
			}
		})
	}
	senders.Wait()
	select {
	case <-all:
	case <-time.After(patience):
		mu.Lock()
		t.Errorf("known of %d commands each: %v", commands, known)
		mu.Unlock()
	}
	cancel()
	ends.Wait()
}
