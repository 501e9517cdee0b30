package main

import (
	"bytes"
	"io"
	"log/slog"
	"net"
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

func TestBadInputIsNamedWithTheWayOut(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
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
