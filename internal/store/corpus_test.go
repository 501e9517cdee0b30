package store_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/shifter-dev/shifter/internal/analysis"
	"github.com/shifter-dev/shifter/internal/drain"
	"github.com/shifter-dev/shifter/internal/release"
	"github.com/shifter-dev/shifter/internal/store"
)

var (
	rewrite = flag.Bool("rewrite", false, "write anew what the records of the corpus are read as; the records themselves are never written again")
	add     = flag.String("add", "", "add a record as it is written today to the corpus, under this name, such as v2")
)

// corpusKey is the release of every record of the corpus.
var corpusKey = sample("full").Key

// corpus reads the records, by name.
func corpus(t testing.TB) map[string][]byte {
	t.Helper()
	names, err := filepath.Glob(filepath.Join("testdata", "record_*.json"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]byte{}
	for _, name := range names {
		if out[strings.TrimSuffix(filepath.Base(name), ".json")], err = os.ReadFile(name); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// addRecord writes a record of today; a name is used once.
func addRecord(t *testing.T, name string) {
	t.Helper()
	r, inbox := full(t)
	data, err := store.Encode(r, inbox, 9)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(filepath.Join("testdata", "record_"+name+".json"), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestEveryRecordIsReadForEver reads records as they were once written. All of
// each must be understood: written anew, it says at least what it said, and all
// that it says now is in a golden file beside it. The records are never written
// again: where the layout of a record changes, one is added (-add v2).
func TestEveryRecordIsReadForEver(t *testing.T) {
	if *add != "" {
		addRecord(t, *add)
	}
	now := false
	for name, data := range corpus(t) {
		now = now || strings.HasPrefix(name, fmt.Sprint("record_v", release.Schema))
		again, err := store.Reencode(corpusKey, data)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var was, is any
		if err := errors.Join(json.Unmarshal(data, &was), json.Unmarshal(again, &is)); err != nil {
			t.Fatal(err)
		}
		for _, lost := range differences("", was, is) {
			t.Errorf("%s: %s", name, lost)
		}
		text, err := json.MarshalIndent(terse(is), "", " ")
		if err != nil {
			t.Fatal(err)
		}
		golden(t, filepath.Join("testdata", name+".golden"), append(text, '\n'))
	}
	if !now {
		t.Errorf("the corpus has no record of schema %d: add one", release.Schema)
	}
}

func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *rewrite {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("the record is not read as %s says; write it anew with -rewrite and look at what changed", path)
	}
}

// terse leaves out what says nothing, so that only what a record is read as
// shows.
func terse(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			if v[k] = terse(x); zero(x) {
				delete(v, k)
			}
		}
	case []any:
		for i := range v {
			v[i] = terse(v[i])
		}
	}
	return v
}

// differences says what of a record is not as it was, or no more.
func differences(at string, was, is any) []string {
	switch w := was.(type) {
	case map[string]any:
		i, ok := is.(map[string]any)
		if !ok {
			break
		}
		var out []string
		for k, v := range w { // what is new is not lost
			out = append(out, differences(at+"/"+k, v, i[k])...)
		}
		return out
	case []any:
		i, ok := is.([]any)
		if !ok || len(i) != len(w) {
			break
		}
		var out []string
		for n := range w {
			out = append(out, differences(fmt.Sprint(at, "/", n), w[n], i[n])...)
		}
		return out
	}
	if reflect.DeepEqual(was, is) {
		return nil
	}
	return []string{fmt.Sprintf("%s was %v and is %v", at, was, is)}
}

// zero reports a value that says nothing.
func zero(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		for _, x := range v {
			if !zero(x) {
				return false
			}
		}
		return true
	case []any:
		for _, x := range v {
			if !zero(x) {
				return false
			}
		}
		return true
	}
	return v == nil || reflect.ValueOf(v).IsZero() || v == "0001-01-01T00:00:00Z"
}

func TestDifferencesAreFound(t *testing.T) {
	read := func(s string) (v any) {
		if err := json.Unmarshal([]byte(s), &v); err != nil {
			t.Fatal(err)
		}
		return v
	}
	was := `{"a":{"b":[1,2]},"c":"x"}`
	for is, want := range map[string]int{
		was: 0,
		`{"a":{"b":[1,2],"new":{"zero":[0,"",null,false]}},"c":"x"}`: 0,
		`{"a":{"b":[1,2],"new":1},"c":"x"}`:                          0,
		`{"a":{"b":[1,3]}}`:                                          2,
		`{"a":[],"c":"x"}`:                                           1,
		`{"a":{"b":[1]},"c":"x"}`:                                    1,
	} {
		if got := differences("", read(was), read(is)); len(got) != want {
			t.Errorf("%s: %v", is, got)
		}
	}
}

// full is a release with every field that a record can have, and two commands.
func full(t *testing.T) (release.Release, []release.Command) {
	t.Helper()
	r := sample("full")
	f := filler{t: t}
	f.fill(reflect.ValueOf(&r).Elem(), "release")
	r.Schema, r.Key, r.UID = release.Schema, corpusKey, "uid-full"
	r.Binding.Key = corpusKey
	var inbox [2]release.Command
	f.fill(reflect.ValueOf(&inbox).Elem(), "inbox")
	inbox[0].Seq, inbox[1].Seq = 8, 9
	return r, inbox[:]
}

// filler sets every field to something that is not zero, and that is one of the
// words where there are words.
type filler struct {
	t *testing.T
	n int
}

func (f *filler) special(typ reflect.Type) (any, bool) {
	at := time.Date(2026, 3, 1, 12, f.n/60, f.n%60, 5000, time.UTC)
	for _, v := range []any{
		at, release.Gating, release.ReasonGathering, release.ClassCapacity, release.StagePromote, release.Canary,
		release.ShownByData, release.ModeGraceful, release.VerbAbort, release.TrafficBack, release.AcceptedYes, release.ShrinkAtEnd,
		release.AllowMirrors,
		release.Response{Do: release.DoHold, For: time.Minute, Times: 2, Then: &release.Response{Do: release.DoRollback}},
		analysis.ModeBoth, analysis.Inconclusive, analysis.Soaking, drain.Draining, drain.SourceInbound, gate(f.t), actions(),
	} {
		if reflect.TypeOf(v) == typ {
			return v, true
		}
	}
	return nil, false
}

func (f *filler) fill(v reflect.Value, at string) {
	f.n++
	if x, ok := f.special(v.Type()); ok {
		v.Set(reflect.ValueOf(x))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if field := v.Type().Field(i); field.IsExported() {
				f.fill(v.Field(i), at+"."+field.Name)
			}
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem(), at)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		f.fill(v.Index(0), at)
		f.fill(v.Index(1), at)
	case reflect.Array:
		for i := range v.Len() {
			f.fill(v.Index(i), at)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		k, x := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		f.fill(k, at)
		f.fill(x, at)
		v.SetMapIndex(k, x)
	case reflect.String:
		v.SetString(fmt.Sprint(strings.ToLower(at[strings.LastIndex(at, ".")+1:]), "-", f.n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(int64(f.n))
	case reflect.Uint64:
		v.SetUint(uint64(f.n))
	case reflect.Float64:
		v.SetFloat(float64(f.n%90) + 0.25)
	default:
		f.t.Fatalf("%s is a %s", at, v.Type())
	}
}

// actions are one of each kind.
func actions() release.Actions {
	route := release.RouteRef{Kind: "HTTPRoute", Namespace: "shop", Name: "full", Rules: []string{"0", "api"}}
	from := release.Template{Hash: "h0", UID: "rs-0", Revision: 3, Images: map[string]string{"app": "app:1"}}
	to := release.Template{Hash: "h1", UID: "rs-1", Revision: 4, Images: map[string]string{"app": "app:2"}}
	return release.Actions{
		release.SetShare{Route: route, UID: "route-full", From: []release.Pair{{Primary: 10, Canary: 90}}, To: []release.Pair{{Primary: 25, Canary: 75}}},
		release.Scale{Track: release.Canary, UID: "track-1-full", Replicas: 3, Spare: []string{"pod-1"}},
		release.SetTemplate{Track: release.Primary, UID: "track-0-full", From: from, To: to},
		release.Undo{Track: release.Primary, UID: "track-0-full", From: to, To: from},
		release.SetFloor{Track: release.Canary, UID: "track-1-full", Min: 2},
		release.Mark{Route: route, UID: "route-full", On: true},
		release.Check{Name: "smoke", Attempt: 2},
	}
}

// gate is a judgement that has come a long way: two steps below 100 and one at
// it, with two proxies, a gap, a warm-up, and counts that cannot be.
func gate(t *testing.T) analysis.Gate {
	t.Helper()
	s := analysis.Defaults()
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	var g analysis.Gate
	for i, share := range []float64{10, 50, 100} {
		g = g.StartStep(analysis.Step{Index: i, Share: share, Prev: share / 2, Copies: 2, At: at})
		for n := range 6 {
			from := at.Add(time.Duration(n) * 30 * time.Second)
			w := func(proxy string, in, out float64) analysis.Window {
				return analysis.Window{
					Metric: analysis.MetricErrors, Stratum: proxy, From: from, To: from.Add(30 * time.Second), WarmUp: n == 0,
					Candidate: analysis.Counts{Requests: in, Bad: in / 100}, Baseline: analysis.Counts{Requests: out, Bad: out / 200},
				}
			}
			ws := []analysis.Window{w("proxy-a", 100*share, 100*(100-share)), w("proxy-b", 40*share, 45*(100-share))}
			if n == 3 {
				ws = append(ws, w("proxy-a", 1, 1), w("proxy-c", 5, -1))
			}
			if n != 4 {
				g = g.Add(s, ws)
			}
		}
		at = at.Add(10 * time.Minute)
	}
	return g
}

// FuzzDecode reads anything as a record: it is named as unreadable, or it can be
// written and read again without a change.
func FuzzDecode(f *testing.F) {
	for _, data := range corpus(f) {
		f.Add(data)
		f.Add(data[:len(data)/2])
		f.Add([]byte(strings.Replace(string(data), `"schema":1`, `"schema":2`, 1)))
	}
	f.Add([]byte(`{"schema":1,"release":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		out, err := store.Reencode(corpusKey, data)
		var corrupt *store.Corrupt
		switch {
		case errors.As(err, &corrupt) && corrupt.Key == corpusKey, errors.Is(err, release.ErrRefused):
			return
		case err != nil:
			t.Fatalf("%v does not name the release", err)
		}
		again, err := store.Reencode(corpusKey, out)
		if err != nil || string(again) != string(out) {
			t.Fatalf("%v: once\n%s\ntwice\n%s", err, out, again)
		}
	})
}
