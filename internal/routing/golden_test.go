package routing_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kjson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"github.com/shifter-dev/shifter/internal/release"
	"github.com/shifter-dev/shifter/internal/routing"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

// question is the first document of a *.in.yaml; the second is the route.
type question struct {
	Namespace   string            `json:"namespace"`
	Primary     release.TrackSpec `json:"primary"`
	Canary      release.TrackSpec `json:"canary"`
	CanaryShare float64           `json:"canaryShare"`
	Rules       []string          `json:"rules"`
	Allow       []release.Allow   `json:"allow"`
	Mark        *bool             `json:"mark"`
}

func (q question) want() routing.Want {
	ns := q.Namespace
	if ns == "" {
		ns = "demo"
	}
	w := routing.Want{Rules: q.Rules, At: "/routes/0"}
	for i, t := range []release.TrackSpec{q.Primary, q.Canary} {
		w.Tracks[i] = routing.Backend{Namespace: ns, Service: t.Service, Port: t.Port, Subset: t.Subset}
	}
	return w
}

// fence is the writer of all golden patches.
func fence() release.Fence {
	return release.Fence{Key: release.Key{Namespace: "demo", Name: "r1"}, Epoch: 7, Step: 1, Safe: release.Primary}
}

// answer is the patch that a route gets, or why it gets none.
func answer(q question, obj *unstructured.Unstructured) (routing.Patch, []release.Pair, error) {
	if q.Mark != nil {
		p, err := routing.MarkPatch(obj, *q.Mark, fence())
		return p, nil, err
	}
	s, err := routing.Find(obj, q.want())
	if err == nil {
		err = s.Refuse(func(a release.Allow) bool { return slices.Contains(q.Allow, a) })
	}
	if err != nil {
		return nil, nil, err
	}
	var to []release.Pair
	for _, p := range s.Pairs() {
		to = append(to, p.At(release.Canary, q.CanaryShare))
	}
	p, err := s.SetShare(to, fence())
	return p, to, err
}

func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.in.yaml")
	if err != nil || len(files) < 25 {
		t.Fatalf("%d golden files: %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(file, ".in.yaml")
		t.Run(strings.ReplaceAll(filepath.Base(name), "-", " "), func(t *testing.T) {
			q, in := read(t, file)
			patch, to, err := answer(q, object(t, in))
			if err != nil {
				golden(t, name+".out.yaml", refusal(t, err))
				golden(t, name+".patch.json", nil)
				return
			}
			golden(t, name+".patch.json", lines(t, patch))
			out := apply(t, in, patch)
			text, err := yaml.JSONToYAML(out)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, name+".out.yaml", text)
			onlyOursDiffers(t, in, out)
			if to == nil {
				return
			}
			s, err := routing.Find(object(t, out), q.want())
			if err != nil || !slices.Equal(s.Pairs(), to) {
				t.Errorf("after the patch the split is %v, %v, want %v", s.Pairs(), err, to)
			}
		})
	}
}

// read returns the question and the route as JSON.
func read(t testing.TB, file string) (question, []byte) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	ask, route, ok := bytes.Cut(b, []byte("\n---\n"))
	var q question
	if err := yaml.UnmarshalStrict(ask, &q); err != nil || !ok {
		t.Fatalf("%s: %v", file, err)
	}
	in, err := yaml.YAMLToJSON(route)
	if err != nil {
		t.Fatal(err)
	}
	return q, in
}

func object(t testing.TB, b []byte) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := kjson.Unmarshal(b, &o.Object); err != nil {
		t.Fatal(err)
	}
	return o
}

// lines writes a patch with one operation a line.
func lines(t *testing.T, p routing.Patch) []byte {
	t.Helper()
	var b bytes.Buffer
	for i, op := range p {
		line, err := json.Marshal(op)
		if err != nil {
			t.Fatal(err)
		}
		b.WriteString([]string{"[", ",\n "}[min(i, 1)])
		b.Write(line)
	}
	if len(p) == 0 {
		b.WriteString("[")
	}
	b.WriteString("]\n")
	return b.Bytes()
}

func apply(t testing.TB, doc []byte, p routing.Patch) []byte {
	t.Helper()
	raw, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	decoded, err := jsonpatch.DecodePatch(raw)
	if err != nil {
		t.Fatal(err)
	}
	if len(p) == 0 {
		return doc
	}
	out, err := decoded.Apply(doc)
	if err != nil {
		t.Fatalf("%v\n%s", err, raw)
	}
	return out
}

// refusal writes out why there is no patch.
func refusal(t *testing.T, err error) []byte {
	t.Helper()
	out := map[string]any{}
	if found := findings(err); len(found) > 0 {
		out["refused"] = found
	} else {
		out["error"] = err.Error()
	}
	b, merr := yaml.Marshal(out)
	if merr != nil {
		t.Fatal(merr)
	}
	return b
}

// findings lists the findings that are joined in an error.
func findings(err error) []release.Finding {
	var f release.Finding
	var many interface{ Unwrap() []error }
	switch {
	case err == nil:
	case errors.As(err, &many) && !isFinding(err):
		var out []release.Finding
		for _, e := range many.Unwrap() {
			out = append(out, findings(e)...)
		}
		return out
	case errors.As(err, &f):
		return []release.Finding{f}
	}
	return nil
}

func isFinding(err error) bool {
	_, ok := err.(release.Finding) //nolint:errorlint // the type itself is asked for
	return ok
}

// golden compares with a file; nothing means that there is none.
func golden(t *testing.T, file string, got []byte) {
	t.Helper()
	if *rewrite {
		if got == nil {
			if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
			return
		}
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is\n%s\nwant\n%s", file, got, want)
	}
}
