package store_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/shifter-dev/shifter/internal/kubetest"
	"github.com/shifter-dev/shifter/internal/release"
	"github.com/shifter-dev/shifter/internal/store"
)

const patience = 30 * time.Second

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

const ns = "shifter"

// cluster is an API server and the ways to it, one for each store.
type cluster struct {
	*kubetest.Server

	net  *http.Transport
	ways map[*store.ConfigMaps]*way
}

// way is a process's way to the API server. A hook sees each request before it is
// sent and may fail it, and each answer before it arrives; both may take their
// time.
type way struct {
	net           *http.Transport
	mu            sync.Mutex
	before, after func(r *http.Request) error
}

func newCluster(t testing.TB) *cluster {
	t.Helper()
	c := &cluster{Server: kubetest.New(t, configMaps), net: &http.Transport{MaxIdleConnsPerHost: 32}, ways: map[*store.ConfigMaps]*way{}}
	t.Cleanup(c.net.CloseIdleConnections)
	return c
}

// RoundTrip implements http.RoundTripper.
func (w *way) RoundTrip(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	before, after := w.before, w.after
	w.mu.Unlock()
	if before != nil {
		if err := before(r); err != nil {
			return nil, err
		}
	}
	resp, err := w.net.RoundTrip(r)
	if err == nil && after != nil {
		if err := after(r); err != nil {
			resp.Body.Close()
			return nil, err
		}
	}
	return resp, err
}

// hook puts hooks into the way of a store; nil is none.
func (c *cluster) hook(s *store.ConfigMaps, before, after func(r *http.Request) error) {
	w := c.ways[s]
	w.mu.Lock()
	defer w.mu.Unlock()
	w.before, w.after = before, after
}

// open makes a store, as a process of its own would.
func (c *cluster) open(t testing.TB, cfg store.ConfigMapsConfig) *store.ConfigMaps {
	t.Helper()
	if cfg.Namespace == "" {
		cfg.Namespace = ns
	}
	w := &way{net: c.net}
	client, err := dynamic.NewForConfigAndClient(c.Config(), &http.Client{Transport: w})
	if err != nil {
		t.Fatal(err)
	}
	s := store.NewConfigMaps(client, cfg)
	c.ways[s] = w
	return s
}

// seed puts records there without asking a store.
func (c *cluster) seed(t testing.TB, n int) {
	t.Helper()
	for i := range n {
		r := sample(asText(i))
		r.Revision = 1
		data, err := store.Encode(r, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		c.Put("shifter", configMaps, kubetest.Object{
			"apiVersion": "v1", "kind": "ConfigMap", "data": kubetest.Object{"record.json": string(data)},
			"metadata": kubetest.Object{
				"namespace": ns, "name": store.RecordName(r.Key), "labels": kubetest.Object{"shifter.dev/kind": "release"},
				"annotations": kubetest.Object{"shifter.dev/release": r.Key.String()},
			},
		})
	}
}

func (c *cluster) two(t testing.TB) (a, b *store.ConfigMaps) {
	t.Helper()
	return c.open(t, store.ConfigMapsConfig{}), c.open(t, store.ConfigMapsConfig{})
}

func (c *cluster) bench(s Store) Bench {
	return Bench{
		Store: s,
		Put: func(_ *testing.T, k release.Key, data []byte) {
			c.Edit("kubectl", configMaps, ns, store.RecordName(k), func(o kubetest.Object) {
				kubetest.In(o, "data")["record.json"] = string(data)
			})
		},
		Get: func(_ *testing.T, k release.Key) []byte {
			return []byte(kubetest.Text(c.Get(configMaps, ns, store.RecordName(k)), "data", "record.json"))
		},
	}
}

// calls counts the requests that a function makes, watches apart, as "2 GET 1 PUT".
func (c *cluster) calls(do func()) string {
	methods := []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}
	count := func() (n []int) {
		for _, m := range methods {
			n = append(n, len(slices.DeleteFunc(c.Asked(m), func(r kubetest.Request) bool { return r.Query.Get("watch") != "" })))
		}
		return n
	}
	before := count()
	do()
	var out []string
	for i, n := range count() {
		if n -= before[i]; n > 0 {
			out = append(out, asText(n)+" "+methods[i])
		}
	}
	return strings.Join(out, " ")
}

func asText(n int) string {
	b, _ := json.Marshal(n)
	return string(b)
}

// watches waits until so many watches have begun.
func (c *cluster) watches(t *testing.T, n int) {
	t.Helper()
	for end := time.Now().Add(patience); ; {
		seen := slices.DeleteFunc(c.Asked(http.MethodGet), func(r kubetest.Request) bool { return r.Query.Get("watch") == "" })
		if len(seen) >= n {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d watches of %d", len(seen), n)
		}
		<-time.After(time.Millisecond)
	}
}

// puts matches the writes of a ConfigMap.
func puts(r *http.Request, name string) bool {
	return r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/"+name)
}

// closed waits until a channel is closed, whatever comes before.
func closed(t *testing.T, c <-chan release.Key) {
	t.Helper()
	for end := time.After(patience); ; {
		select {
		case _, open := <-c:
			if !open {
				return
			}
		case <-end:
			t.Fatal("the channel is not closed")
		}
	}
}

// hang answers nothing until the caller goes.
func hang(_ http.ResponseWriter, r *http.Request) bool {
	<-r.Context().Done()
	return true
}

// soon bounds what a test waits for.
func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}
