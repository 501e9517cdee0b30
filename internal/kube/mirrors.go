package kube

import (
	"context"
	"log/slog"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// Selection is what a mirror shows: of one resource in one namespace the object
// with a name, or those that a selector of labels reaches.
type Selection struct {
	Resource  schema.GroupVersionResource
	Namespace string
	Name      string
	Labels    string
}

func (s Selection) options() metav1.ListOptions {
	if s.Name != "" {
		return metav1.ListOptions{FieldSelector: "metadata.name=" + s.Name}
	}
	return metav1.ListOptions{LabelSelector: s.Labels}
}

// MirrorsConfig says how mirrors are kept. The zero value is good.
type MirrorsConfig struct {
	// Timeout bounds each request of a list, and the opening of a watch; zero means
	// 10 s.
	Timeout time.Duration
	// Patience is how long a look waits for a mirror that begins, or that has not
	// heard of a write of our own yet; zero means 1 s.
	Patience time.Duration
	// Silence is how long a watch may bring nothing, after it has brought something,
	// before it is taken for dead; zero means 90 s. An API server then sends a
	// bookmark every minute where nothing happens. One that has brought nothing yet
	// has twice the time, since there are no bookmarks before the API server knows of
	// a version above the one at which the watch began: it learns of one by any
	// change of the resource in the whole cluster, and without by an etcd that says
	// how far it is (kubeadm has it do so every 5 s; by itself it does every 10
	// minutes).
	Silence time.Duration
	// Linger is how long a mirror is kept that nobody follows any more; zero means
	// 10 s, less than zero not at all.
	Linger time.Duration
	// Strip takes away of an object what nobody reads, before it is kept.
	Strip func(schema.GroupVersionResource, *unstructured.Unstructured)
	// Logger is told of watches that end; nil discards.
	Logger *slog.Logger
}

// Mirrors are the mirrors of a process: one for each selection that somebody
// follows, however many do. A mirror answers reads while it is current:
//
//   - It began with a list of the newest state ("most recent", not from the cache
//     of the API server), all pages of it, and a watch from that very version is
//     open. What is newer comes as an event, in order.
//   - Nothing has been found broken since. An error, a version that is too old, an
//     end that is not taken up within two seconds, or nothing heard for Silence
//     (no event and no bookmark) ends it, and it begins anew with a list. A
//     connection that is dead without saying so ends it earlier where it is
//     HTTP/2: client-go pings one that is silent for 30 s and gives it 15 s to
//     answer. A watch that the API server ends when its time is over, which is a
//     sign of life too, is taken up where it was, without a list.
//   - It has reached the floor: the versions that this process got in answer to its
//     own writes and reads of the objects (Floor). A write without a clear answer
//     makes it begin anew (Doubt). Versions are compared as integers of any length;
//     where they are none, a mirror is never current.
//
// So what it shows is at least as new as every write of this process, and of what
// others wrote it is behind by the way of an event, some milliseconds. Where that
// way is cut in silence it is behind by 45 seconds at most where pings find it out,
// by Silence where bookmarks would come, and by twice that in the worst case: behind
// a proxy that answers the pings itself, on a watch that has not brought anything
// yet. Beyond that it trusts that the API server's own cache follows etcd. While it
// is not current it shows nothing, and who asks reads live.
type Mirrors struct {
	client dynamic.Interface
	cfg    MirrorsConfig
	// pause is the wait after the first failure.
	pause time.Duration

	mu  sync.Mutex
	all map[Selection]*mirror
}

// NewMirrors makes mirrors on a client.
func NewMirrors(client dynamic.Interface, cfg MirrorsConfig) *Mirrors {
	orElse := func(d *time.Duration, usual time.Duration) {
		if *d == 0 {
			*d = usual
		}
	}
	orElse(&cfg.Timeout, 10*time.Second)
	orElse(&cfg.Patience, time.Second)
	orElse(&cfg.Silence, 90*time.Second)
	orElse(&cfg.Linger, 10*time.Second)
	if cfg.Strip == nil {
		cfg.Strip = func(schema.GroupVersionResource, *unstructured.Unstructured) {}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Mirrors{client: client, cfg: cfg, pause: firstWait, all: map[Selection]*mirror{}}
}

// Follow keeps a mirror of a selection until stop is called, and tells of every
// change and of every time when one may have been missed. It is told of what the
// mirror began with before that is shown to readers. After stop has returned
// nothing is told any more. What told does must be short; it may follow another
// selection, but not stop this one. The end of ctx ends nothing: a mirror outlives
// whoever it was begun for.
func (m *Mirrors) Follow(ctx context.Context, s Selection, told func()) (stop func()) {
	m.mu.Lock()
	x, ok := m.all[s]
	if !ok {
		ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		x = &mirror{
			selection: s, api: m.client.Resource(s.Resource).Namespace(s.Namespace), cfg: m.cfg,
			pause: m.pause, close: cancel, stir: make(chan struct{}), followers: map[*follower]bool{},
		}
		m.all[s] = x
		go x.run(ctx)
	}
	x.users++
	m.mu.Unlock()

	f := &follower{told}
	x.join(f)
	var once sync.Once
	return func() {
		once.Do(func() {
			x.leave(f)
			m.release(x)
		})
	}
}

// release lets a mirror go that nobody follows any more, after a while.
func (m *Mirrors) release(x *mirror) {
	m.mu.Lock()
	defer m.mu.Unlock()
	x.users--
	x.left++
	switch left := x.left; {
	case x.users > 0:
	case m.cfg.Linger < 0:
		m.drop(x)
	default:
		time.AfterFunc(m.cfg.Linger, func() {
			m.mu.Lock()
			defer m.mu.Unlock()
			if x.users == 0 && x.left == left {
				m.drop(x)
			}
		})
	}
}

func (m *Mirrors) drop(x *mirror) {
	delete(m.all, x.selection)
	x.close()
}

func (m *Mirrors) of(s Selection) *mirror {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.all[s]
}

// Sight is what a mirror showed, by name. The objects are everybody's: they are
// never changed.
type Sight struct {
	Objects []*unstructured.Unstructured
	// At is when the mirror was current last: the time of the look, not that of the
	// last event. What has not changed since is as it was then.
	At time.Time
}

// Patience is until when a look that begins now may wait for mirrors, for all of
// them together.
func (m *Mirrors) Patience() time.Time { return time.Now().Add(m.cfg.Patience) }

// Read shows a selection, if somebody follows it and its mirror is current. It
// waits for one that will be in a moment, until the time that is given.
func (m *Mirrors) Read(ctx context.Context, s Selection, until time.Time) (Sight, bool) {
	x := m.of(s)
	if x == nil {
		return Sight{}, false
	}
	return x.read(ctx, until)
}

// Peek shows what the mirror of a selection has, current or not: for what never
// changes in an object.
func (m *Mirrors) Peek(s Selection) []*unstructured.Unstructured {
	x := m.of(s)
	if x == nil {
		return nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.sorted()
}

// Floor says that a version of an object in a selection was seen or written: what
// is shown from now on is at least as new. A mirror that begins later begins with
// the newest state.
func (m *Mirrors) Floor(s Selection, version string) {
	if x := m.of(s); x != nil {
		x.raise(version)
	}
}

// Doubt says that a selection may not be as it is shown: a write had no clear
// answer, or was refused although everything looked as expected. Its mirror is not
// current until it has begun anew.
func (m *Mirrors) Doubt(s Selection) {
	if x := m.of(s); x != nil {
		x.doubt()
	}
}
