package routing

import (
	"encoding/json"
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/shifter-dev/shifter/internal/release"
)

// Manager is the field manager of every write.
const Manager = "shifter"

// What is written beside the weights. The annotations are the fence: they stay
// after the end, or an old writer could come back. The label says that a release
// is under way, and goes with its end.
const (
	ReleaseAnnotation = "shifter.dev/release"
	EpochAnnotation   = "shifter.dev/epoch"
	StepAnnotation    = "shifter.dev/step"
	SafeAnnotation    = "shifter.dev/safe"
	ProgressLabel     = "shifter.dev/in-progress"
)

// maxWeight is the Gateway API's; Istio has none, and nobody needs more.
const maxWeight = 1_000_000

// Op is one operation of a JSON Patch (RFC 6902).
type Op struct {
	Op    string          `json:"op"`
	Path  string          `json:"path"`
	Value json.RawMessage `json:"value,omitempty"`
}

// Patch is a JSON Patch. The API server applies all of it or nothing.
type Patch []Op

// test asks that a value is as it was read. Nil asks that there is none: on the
// API server such a test passes for an absent key, and fails where there is one.
func (p *Patch) test(path string, value any) { p.op("test", path, value) }

// add writes a value, whether or not there is one.
func (p *Patch) add(path string, value any) { p.op("add", path, value) }

func (p *Patch) remove(path string) { *p = append(*p, Op{Op: "remove", Path: path}) }

func (p *Patch) op(op, path string, value any) {
	raw, err := json.Marshal(value)
	if err != nil { // everything here was JSON before, or is a number or a string
		panic(fmt.Sprintf("routing: the value of %s cannot be written: %v", path, err))
	}
	*p = append(*p, Op{Op: op, Path: path, Value: raw})
}

// SetShare makes the patch that gives each managed rule its pair. The weights
// are always written out, a 0 too: an absent one would be read as another.
func (s Split) SetShare(to []release.Pair, f release.Fence) (Patch, error) {
	if len(to) != len(s.pairs) {
		return nil, fmt.Errorf("%w: %d rules hold the pair, not %d", release.ErrConflict, len(s.pairs), len(to))
	}
	p := append(make(Patch, 0, 16*len(to)+8), same(s.object)...)
	for i, pr := range s.pairs {
		if err := writable(pr, to[i]); err != nil {
			return nil, err
		}
		if pr.name != "" {
			p.test(pr.path+"/name", pr.name)
		}
		for _, t := range []release.Track{release.Primary, release.Canary} {
			e := pr.ends[pr.at[t]]
			p = append(p, e.same...)
			p.test(e.path+"/weight", e.raw)
		}
	}
	for i, pr := range s.pairs {
		for _, t := range []release.Track{release.Primary, release.Canary} {
			p.add(pr.ends[pr.at[t]].path+"/weight", to[i].Of(t))
		}
	}
	if err := p.fence(s.object, f); err != nil {
		return nil, err
	}
	return p, nil
}

// writable refuses weights that are none, send nothing anywhere, or would take
// from the other backends of the rule.
func writable(p pair, to release.Pair) error {
	for _, w := range []int32{to.Primary, to.Canary} {
		if w < 0 || w > maxWeight {
			return fmt.Errorf("%w: the weight %d in %s is not from 0 to %d", release.ErrRefused, w, p, maxWeight)
		}
	}
	switch sum := p.weights().Sum(); {
	case to.Sum() == 0:
		return fmt.Errorf("%w: both weights in %s would be 0", release.ErrRefused, p)
	case to.Sum() != sum:
		return fmt.Errorf("%w: the pair in %s has %d together, and would have %d", release.ErrRefused, p, sum, to.Sum())
	}
	return nil
}

// same begins a patch: with the object that was read, not one of its name.
func same(obj *unstructured.Unstructured) Patch {
	var p Patch
	if uid := obj.GetUID(); uid != "" {
		p.test("/metadata/uid", uid)
	}
	return p
}

// fence adds the writer's annotations, if no newer writer has been there, and
// the test that none comes in between.
func (p *Patch) fence(obj *unstructured.Unstructured, f release.Fence) error {
	has, err := epoch(obj)
	if err != nil {
		return fmt.Errorf("%w: %w", release.ErrRefused, err)
	}
	if has > f.Epoch {
		return fmt.Errorf("%w: the route has epoch %d, we have %d", release.ErrFenced, has, f.Epoch)
	}
	old, ours := field(obj, "annotations"), fenced(f)
	if old == nil {
		p.test("/metadata/annotations", nil)
		p.add("/metadata/annotations", ours)
		return nil
	}
	p.test(key("annotations", EpochAnnotation), old[EpochAnnotation])
	for _, name := range []string{ReleaseAnnotation, EpochAnnotation, StepAnnotation, SafeAnnotation} {
		p.add(key("annotations", name), ours[name])
	}
	return nil
}

// fenced are the annotations of a writer.
func fenced(f release.Fence) map[string]string {
	return map[string]string{
		ReleaseAnnotation: f.Key.String(),
		EpochAnnotation:   strconv.FormatUint(f.Epoch, 10),
		StepAnnotation:    strconv.Itoa(f.Step),
		SafeAnnotation:    f.Safe.String(),
	}
}

// mark makes the patch that sets or clears the in-progress label, with the
// fence. It is empty when there is nothing to change.
func mark(obj *unstructured.Unstructured, on bool, f release.Fence) (Patch, error) {
	by := marked(obj, f.Key)
	if by != "" && by != f.Key.Name {
		return nil, fmt.Errorf("%w: it is marked by release %s", release.ErrConflict, by)
	}
	p := same(obj)
	if err := p.fence(obj, f); err != nil {
		return nil, err
	}
	switch at := key("labels", ProgressLabel); {
	case on && by == "" && field(obj, "labels") == nil:
		p.test("/metadata/labels", nil)
		p.add("/metadata/labels", map[string]string{ProgressLabel: f.Key.Name})
	case on && by == "":
		p.test(at, nil)
		p.add(at, f.Key.Name)
	case on:
		p.test(at, by)
	case by == "":
		return nil, nil
	default:
		p.test(at, by)
		p.remove(at)
	}
	return p, nil
}

// field is a map of an object's metadata, nil when it is absent.
func field(obj *unstructured.Unstructured, name string) map[string]any {
	m, _, _ := unstructured.NestedFieldNoCopy(obj.Object, "metadata", name)
	out, _ := m.(map[string]any)
	return out
}

// key is the JSON pointer of one of our keys; a slash is written ~1 in it.
func key(in, name string) string {
	return "/metadata/" + in + "/shifter.dev~1" + name[len("shifter.dev/"):]
}
