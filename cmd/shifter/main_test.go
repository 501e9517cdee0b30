package main

import (
	"bytes"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/fx"
	"go.uber.org/goleak"

	"github.com/shifter-dev/shifter/internal/server"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTheHouseCanBeJoined(t *testing.T) {
	err := fx.ValidateApp(house(slog.New(slog.DiscardHandler), hands{}, serverConfig{}), fx.Invoke(func(*server.Server, *heart) {}))
	if err != nil {
		t.Error(err)
	}
}

// unreachable is a kubeconfig of a cluster that does not answer.
const unreachable = `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "http://127.0.0.1:9"}}]
contexts: [{name: c, context: {cluster: c, user: ""}}]
current-context: c
`

func TestBadInputIsNamedWithTheWayOut(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	rubbish := filepath.Join(t.TempDir(), "rubbish")
	cluster := filepath.Join(t.TempDir(), "cluster")
	for path, text := range map[string]string{rubbish: "clusters: {{", cluster: unreachable} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		args []string
		want []string
	}{
		"an unknown command":          {[]string{"dmeo"}, []string{"dmeo"}},
		"an unknown flag":             {[]string{"demo", "--speed", "9"}, []string{"--speed"}},
		"an argument too many":        {[]string{"demo", "good"}, []string{"good"}},
		"an unknown scenario":         {[]string{"demo", "--scenario", "godo"}, []string{"godo", "good", "errors", "crash"}},
		"a rate that is too high":     {[]string{"demo", "--rps", "1e9"}, []string{"--rps", "1000"}},
		"a rate that is no number":    {[]string{"demo", "--rps", "NaN"}, []string{"--rps", "10"}},
		"waiting and exiting at once": {[]string{"demo", "--no-release", "--exit"}, []string{"--no-release", "--exit"}},
		"an unknown output":           {[]string{"demo", "-o", "xml"}, []string{"xml", "json"}},
		"an app that is not there":    {[]string{"demo", "--app", "/nowhere/go-api"}, []string{"/nowhere/go-api", "make build"}},
		"a busy port":                 {[]string{"demo", "--app", "/bin/true", "--listen", busy.Addr().String()}, []string{"in use", "--listen"}},
		"serving without an account":  {[]string{"serve"}, []string{"--dev"}},
		"serving others without one":  {[]string{"serve", "--dev", "--listen", "0.0.0.0:0"}, []string{"--dev", "0.0.0.0", "127.0.0.1"}},
		"serving without metrics":     {[]string{"serve", "--dev"}, []string{"--prometheus"}},
		"metrics that are no URL":     {[]string{"serve", "--dev", "--listen", "127.0.0.1:0", "--kubeconfig", cluster, "--prometheus", "prom:9090"}, []string{"default", "http://"}},
		"an unknown provider":         {[]string{"serve", "--dev", "--listen", "127.0.0.1:0", "--kubeconfig", cluster, "--prometheus", "http://127.0.0.1:9", "--provider", "envy"}, []string{"envy", "envoy"}},
		"a namespace that is none":    {[]string{"serve", "--dev", "--prometheus", "http://127.0.0.1:9", "--namespace", "Shop_1"}, []string{"--namespace", "Shop_1"}},
		"a scrape without time":       {[]string{"serve", "--dev", "--prometheus", "http://127.0.0.1:9", "--scrape-interval", "0s"}, []string{"--scrape-interval", "15s"}},
		"a token for all to read":     {[]string{"serve", "--dev", "--prometheus", "http://prom.example:9090", "--metrics-token-file", rubbish}, []string{"--metrics-token-file", "prom.example:9090", "https://", "loopback"}},
		"a password for all to read":  {[]string{"serve", "--dev", "--prometheus", "http://10.0.0.7", "--metrics-basic-file", rubbish}, []string{"--metrics-basic-file", "https://"}},
		"a certificate for nobody":    {[]string{"serve", "--dev", "--prometheus", "http://127.0.0.1:9", "--metrics-ca-file", rubbish}, []string{"--metrics-ca-file", "https://"}},
		"a token that is gone":        {[]string{"serve", "--dev", "--listen", "127.0.0.1:0", "--kubeconfig", cluster, "--prometheus", "http://127.0.0.1:9", "--metrics-token-file", "/nowhere/token"}, []string{"/nowhere/token", "bearer token"}},
		"a certificate without a key": {[]string{"serve", "--dev", "--listen", "127.0.0.1:0", "--kubeconfig", cluster, "--prometheus", "https://127.0.0.1:9", "--metrics-cert-file", rubbish}, []string{"belong together"}},
		"a kubeconfig that is gone":   {[]string{"serve", "--dev", "--prometheus", "http://127.0.0.1:9", "--kubeconfig", "/nowhere/config"}, []string{"--kubeconfig", "/nowhere/config"}},
		"a kubeconfig that is none":   {[]string{"serve", "--dev", "--prometheus", "http://127.0.0.1:9", "--kubeconfig", rubbish}, []string{"kubeconfig", rubbish}},
		"a cluster's port in use":     {[]string{"serve", "--dev", "--prometheus", "http://127.0.0.1:9", "--kubeconfig", cluster, "--listen", busy.Addr().String()}, []string{"in use", "--listen"}},
		"an address that is no port":  {[]string{"demo", "--app", "/bin/true", "--listen", "here"}, []string{"here", "--listen"}},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			if code := run(c.args, &stdout, &stderr); code != exitUsage {
				t.Errorf("exit code %d, want %d", code, exitUsage)
			}
			for _, w := range c.want {
				if !strings.Contains(stderr.String(), w) {
					t.Errorf("stderr does not name %q: %s", w, stderr.String())
				}
			}
			if stdout.Len() > 0 {
				t.Errorf("stdout: %s", stdout.String())
			}
		})
	}
}

func TestHelpAndVersionGoToStdout(t *testing.T) {
	for _, args := range [][]string{{}, {"--help"}, {"version"}, {"--version"}, {"demo", "--help"}} {
		var stdout bytes.Buffer
		if code := run(args, &stdout, io.Discard); code != 0 || stdout.Len() == 0 {
			t.Errorf("%v: exit code %d, %d bytes", args, code, stdout.Len())
		}
	}
}
