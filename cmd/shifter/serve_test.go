package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/shifter-dev/shifter/internal/kubetest"
)

// patience is how long a test waits for what should happen at once.
const patience = 20 * time.Second

// transcript is what a command says, as it says it.
type transcript struct {
	mu   sync.Mutex
	text bytes.Buffer
	said chan struct{}
}

func newTranscript() *transcript { return &transcript{said: make(chan struct{}, 1)} }

func (w *transcript) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case w.said <- struct{}{}:
	default:
	}
	return w.text.Write(p)
}

func (w *transcript) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// await waits until the text matches, and returns the first group.
func (w *transcript) await(t *testing.T, pattern string) string {
	t.Helper()
	re := regexp.MustCompile(pattern)
	for end := time.After(patience); ; {
		if m := re.FindStringSubmatch(w.String()); m != nil {
			return m[1]
		}
		select {
		case <-w.said:
		case <-end:
			t.Fatalf("it did not say %q but:\n%s", pattern, w)
		}
	}
}

// serving runs serve over a cluster until the test ends, and returns the URL of
// its door and what it says.
func serving(t *testing.T, server string) (string, *transcript) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cluster")
	if err := os.WriteFile(path, []byte(strings.Replace(unreachable, "http://127.0.0.1:9", server, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	said := newTranscript()
	ctx, stop := context.WithCancel(context.Background())
	root := newRoot()
	root.SetArgs([]string{"serve", "--dev", "--kubeconfig", path, "--listen", "127.0.0.1:0", "--namespace", "shifter", "--prometheus", "http://127.0.0.1:9"})
	root.SetOut(io.Discard)
	root.SetErr(said)
	done := make(chan error, 1)
	go func() { done <- root.ExecuteContext(ctx) }()
	t.Cleanup(func() {
		stop()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("serve ended with %v", err)
			}
		case <-time.After(patience):
			t.Error("serve did not end")
		}
		http.DefaultClient.CloseIdleConnections()
	})
	return said.await(t, `Page and API: (http://[0-9.:]+)`), said
}

// answer asks the door.
func answer(t *testing.T, method, url, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

const wish = `{"name": "r", "routes": [{"kind": "HTTPRoute", "name": "nowhere"}],
 "primary": {"service": "checkout", "port": 80, "deployment": "checkout"},
 "canary": {"service": "checkout-canary", "port": 80, "deployment": "checkout-canary"}}`

func TestServeOutlivesAnAPIServerThatIsAway(t *testing.T) {
	url, said := serving(t, "http://127.0.0.1:9")
	said.await(t, `(the Lease cannot be taken.*127\.0\.0\.1:9)`)
	if code, body := answer(t, "GET", url+"/readyz", ""); code != http.StatusServiceUnavailable {
		t.Errorf("ready: %d %s", code, body)
	}
	if code, body := answer(t, "GET", url+"/livez", ""); code != http.StatusOK {
		t.Errorf("alive: %d %s", code, body)
	}
	code, body := answer(t, "POST", url+"/v1/namespaces/shop/releases", wish)
	if code != http.StatusServiceUnavailable || !strings.Contains(body, "Kubernetes API server does not answer") {
		t.Errorf("a wish: %d %s", code, body)
	}
}

func TestServeRunsOverAClusterAndNamesWhatIsMissingThere(t *testing.T) {
	c := kubetest.New(t, configMaps, schema.GroupVersionResource{Group: "gateway.networking.k8s.io", Version: "v1", Resource: "httproutes"},
		schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, leases)
	url, said := serving(t, c.Config().Host)
	said.await(t, `(the engine runs)`)
	if code, body := answer(t, "GET", url+"/readyz", ""); code != http.StatusOK {
		t.Errorf("ready: %d %s", code, body)
	}
	code, body := answer(t, "POST", url+"/v1/namespaces/shop/releases", wish)
	var problem struct {
		Errors []struct{ Pointer, Message, Fix string }
	}
	if err := json.Unmarshal([]byte(body), &problem); err != nil || code != http.StatusUnprocessableEntity {
		t.Fatalf("%d %v %s", code, err, body)
	}
	for _, pointer := range []string{"/routes/0", "/primary/deployment", "/canary/deployment"} {
		found := false
		for _, e := range problem.Errors {
			found = found || strings.HasPrefix(e.Pointer, pointer) && e.Message != "" && e.Fix != ""
		}
		if !found {
			t.Errorf("nothing about %s, with the way out: %s", pointer, body)
		}
	}
	if epoch := c.Get(configMaps, "shifter", "shifter-epoch"); epoch == nil {
		t.Error("the epoch was not raised in the cluster")
	}
}

func TestServeBeginsToWorkWhenTheAPIServerComesBack(t *testing.T) {
	c := kubetest.New(t, configMaps, leases)
	var away atomic.Bool
	away.Store(true)
	c.Intercept = func(w http.ResponseWriter, _ *http.Request) bool {
		if !away.Load() {
			return false
		}
		http.Error(w, "starting", http.StatusServiceUnavailable)
		return true
	}
	url, said := serving(t, c.Config().Host)
	said.await(t, `(the Lease cannot be taken)`)
	away.Store(false)
	said.await(t, `(the engine runs)`)
	if code, body := answer(t, "GET", url+"/readyz", ""); code != http.StatusOK {
		t.Errorf("ready: %d %s", code, body)
	}
}

func TestTheUserAgentIsOneWord(t *testing.T) {
	if a := userAgent(); !strings.HasPrefix(a, "shifter/") || strings.ContainsAny(a, " \t") {
		t.Errorf("%q", a)
	}
}
