package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const log = `{"auditID":"1","stage":"ResponseComplete","userAgent":"shifter/0.1","verb":"patch","requestURI":"/apis/x","requestReceivedTimestamp":"2026-11-30T12:00:00.100000Z","objectRef":{"resource":"httproutes","namespace":"a","name":"checkout","apiGroup":"gateway.networking.k8s.io"},"responseStatus":{"code":200}}
{"auditID":"2","stage":"ResponseComplete","userAgent":"shifter/0.1","verb":"patch","requestReceivedTimestamp":"2026-11-30T12:00:05.000000Z","objectRef":{"resource":"deployments","namespace":"a","name":"checkout","apiGroup":"apps","subresource":"scale"},"responseStatus":{"code":409}}
{"auditID":"3","stage":"ResponseStarted","userAgent":"shifter/0.1","verb":"watch","requestReceivedTimestamp":"2026-11-30T12:00:01.000000Z","objectRef":{"resource":"pods","namespace":"b"},"responseStatus":{"code":200}}
{"auditID":"3","stage":"ResponseComplete","userAgent":"shifter/0.1","verb":"watch","requestReceivedTimestamp":"2026-11-30T12:00:01.000000Z","objectRef":{"resource":"pods","namespace":"b"},"responseStatus":{"code":200}}
{"auditID":"4","stage":"ResponseComplete","userAgent":"kubelet/1","verb":"get","requestURI":"/version?x","requestReceivedTimestamp":"2026-11-30T12:00:02.000000Z","responseStatus":{"code":200}}
{"auditID":"5","stage":"Respo`

func ask(t *testing.T, args ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "audit.log")
	if err := os.WriteFile(path, []byte(log), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := run(append([]string{"-log", path}, args...), &out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestCallsAreCountedByAgentTimeAndNamespace(t *testing.T) {
	for _, c := range []struct {
		args          string
		calls, writes int
	}{
		{"", 4, 2},
		{"-agent shifter", 3, 2},
		{"-agent shifter -namespace a", 2, 2},
		{"-agent shifter -since 2026-11-30T12:00:01Z", 2, 1},
		{"-agent shifter -until 2026-11-30T12:00:01Z", 2, 1},
		{"-agent kubectl", 0, 0},
		{"-since 1s", 0, 0},
	} {
		var got struct {
			Calls  int   `json:"calls"`
			Writes int   `json:"writes"`
			By     []any `json:"by"`
		}
		if err := json.Unmarshal([]byte(ask(t, strings.Fields(c.args)...)), &got); err != nil {
			t.Fatal(err)
		}
		if got.Calls != c.calls || got.Writes != c.writes || got.By == nil {
			t.Errorf("%q: %+v, want %d calls and %d writes", c.args, got, c.calls, c.writes)
		}
	}
}

func TestEachCallIsWrittenWithItsTime(t *testing.T) {
	got := ask(t, "-each")
	want := `{"time":"2026-11-30T12:00:00.1Z","verb":"patch","group":"gateway.networking.k8s.io","resource":"httproutes","namespace":"a","name":"checkout","code":200,"agent":"shifter/0.1"}
{"time":"2026-11-30T12:00:01Z","verb":"watch","resource":"pods","namespace":"b","code":200,"agent":"shifter/0.1"}
{"time":"2026-11-30T12:00:02Z","verb":"get","resource":"/version","code":200,"agent":"kubelet/1"}
{"time":"2026-11-30T12:00:05Z","verb":"patch","group":"apps","resource":"deployments/scale","namespace":"a","name":"checkout","code":409,"agent":"shifter/0.1"}
`
	if got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}
