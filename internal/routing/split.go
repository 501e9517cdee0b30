package routing

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/shifter-dev/shifter/internal/release"
)

// DefaultDomain is the domain of a cluster that does not say.
const DefaultDomain = "cluster.local"

// Want says which pair is managed, and where.
type Want struct {
	Tracks [2]Backend
	// Rules names the rules to move; empty means every rule with both tracks.
	Rules []string
	// Domain completes the short hosts of a VirtualService; empty means
	// DefaultDomain.
	Domain string
	// At is the JSON pointer of the route in the request, for findings.
	At string
}

// Split is a route taken apart: the rules in which the managed pair stands, and
// how it is divided there.
type Split struct {
	object *unstructured.Unstructured
	want   Want
	all    []rule
	pairs  []pair
}

// pair is the managed pair in one rule; at indexes its backends by track.
type pair struct {
	rule
	at [2]int
}

// weights are those of the pair. One that is alone in its rule and has less than
// 100 together, such as the 1 and 0 of a backend without a weight, is read as if
// it had 100, and is written so: else no step could be expressed. More than 100
// is finer, and is kept, as is the sum of a pair beside other backends (I1).
func (p pair) weights() release.Pair {
	w := release.Pair{Primary: p.ends[p.at[release.Primary]].weight, Canary: p.ends[p.at[release.Canary]].weight}
	if sum := w.Sum(); len(p.ends) == 2 && sum > 0 && sum < 100 {
		primary := (w.Primary*200 + sum) / (2 * sum) // rounded; no share is below 1 here, so none becomes 0
		return release.Pair{Primary: primary, Canary: 100 - primary}
	}
	return w
}

// Find takes a route apart. Its errors are release.Finding, joined where there
// are several.
func Find(obj *unstructured.Unstructured, want Want) (Split, error) {
	if want.Domain == "" {
		want.Domain = DefaultDomain
	}
	f := finder{obj: obj, want: want}
	s := f.split()
	if len(f.found) > 0 {
		return Split{}, errors.Join(f.found...)
	}
	return s, nil
}

// Rules are the managed rules, as people call them.
func (s Split) Rules() []string {
	var out []string
	for _, p := range s.pairs {
		out = append(out, p.title())
	}
	return out
}

// Pairs are the weights of the managed pair, one for each managed rule.
func (s Split) Pairs() []release.Pair {
	var out []release.Pair
	for _, p := range s.pairs {
		out = append(out, p.weights())
	}
	return out
}

// Timeout is the longest that a managed rule lets a request run; zero when any
// of them does not say.
func (s Split) Timeout() time.Duration {
	var most time.Duration
	for _, p := range s.pairs {
		if p.timeout == 0 {
			return 0
		}
		most = max(most, p.timeout)
	}
	return most
}

// Refuse says why a split should not be moved although it could be written:
// weights that send nothing anywhere, and the risks that were not allowed.
func (s Split) Refuse(allows func(release.Allow) bool) error {
	f := finder{obj: s.object, want: s.want}
	for _, p := range s.pairs {
		if p.weights().Sum() == 0 {
			f.find("", "weightsAllZero", fmt.Sprintf("give the serving track all of the weight in %s first", p),
				"%s gives both tracks the weight 0, so it has no split to move", p)
		}
		if p.sticky && !allows(release.AllowSessionPersistence) {
			f.find("", "sessionPersistence", `take sessionPersistence off the rule, or set "allow": ["sessionPersistence"]`,
				"%s keeps sessions on their backend, so its traffic does not follow the weights", p)
		}
	}
	for _, r := range s.all {
		for i, t := range s.want.Tracks {
			if slices.ContainsFunc(r.mirrors, t.reached) && !allows(release.AllowMirrors) {
				f.find("", "mirrors", `take the mirror off the rule, or set "allow": ["mirrors"]`,
					"%s mirrors requests to the %s (%s), which it would get at weight 0 too", r, release.Track(i), t)
			}
		}
	}
	return errors.Join(f.found...)
}

// finder collects what is wrong with a route.
type finder struct {
	obj   *unstructured.Unstructured
	want  Want
	found []error
}

// find adds a finding about what is in the request under the route, or at an
// absolute pointer.
func (f *finder) find(pointer, code, fix, format string, args ...any) {
	if !strings.HasPrefix(pointer, "/primary") && !strings.HasPrefix(pointer, "/canary") {
		pointer = f.want.At + pointer
	}
	f.found = append(f.found, release.Finding{
		Pointer: pointer, Code: code, Fix: fix,
		Message: fmt.Sprintf("%s: %s", title(f.obj), fmt.Sprintf(format, args...)),
	})
}

func title(obj *unstructured.Unstructured) string {
	return fmt.Sprintf("%s %s/%s", obj.GetKind(), obj.GetNamespace(), obj.GetName())
}

func (f *finder) split() Split {
	k, ok := kindOf(f.obj.GetKind())
	if !ok {
		f.find("/kind", "routeKind", "use an HTTPRoute, a GRPCRoute or a VirtualService", "its kind cannot be shifted")
		return Split{}
	}
	for i, t := range f.want.Tracks {
		if k.gateway() && t.Subset != "" {
			f.find(fmt.Sprintf("/%s/subset", release.Track(i)), "subset", "give each track a Service of its own, or use a VirtualService",
				"only a VirtualService knows subsets, and the %s is subset %s", release.Track(i), t.Subset)
		}
	}
	rules, err := k.read(f.obj, f.want.Domain)
	if err != nil {
		f.find("", "routeMalformed", "correct the route", "its spec cannot be read: %v", err)
	}
	if len(f.found) > 0 {
		return Split{}
	}
	s := Split{object: f.obj, want: f.want, all: rules}
	for _, r := range f.chosen(rules) {
		at, ok := f.both(r)
		if ok {
			s.pairs = append(s.pairs, pair{r, at})
		}
	}
	if len(s.pairs) == 0 && len(f.found) == 0 {
		f.noneHoldsBoth(k, rules)
	}
	return s
}

// chosen are the named rules, or every one.
func (f *finder) chosen(rules []rule) []rule {
	if len(f.want.Rules) == 0 {
		return rules
	}
	var at []int
	for i, name := range f.want.Rules {
		pointer := fmt.Sprintf("/rules/%d", i)
		var hits []int
		for j, r := range rules {
			if name != "" && r.name == name {
				hits = append(hits, j)
			}
		}
		switch {
		case len(hits) > 1:
			f.find(pointer, "ruleAmbiguous", "give each rule a name of its own", "%d rules are named %q", len(hits), name)
		case len(hits) == 0:
			f.find(pointer, "ruleNotFound", namesFix(rules), "no rule is named %q", name)
		case !slices.Contains(at, hits[0]):
			at = append(at, hits[0])
		}
	}
	slices.Sort(at) // pairs come in the route's order, whatever the request's is
	var out []rule
	for _, j := range at {
		out = append(out, rules[j])
	}
	return out
}

func namesFix(rules []rule) string {
	var names []string
	for _, r := range rules {
		if r.name != "" {
			names = append(names, r.name)
		}
	}
	switch {
	case len(names) == 0:
		return "its rules have no names: name them, or leave rules out to move every rule with both tracks"
	case len(names) < len(rules):
		return fmt.Sprintf("its named rules are %q: use one of them, name the others, or leave rules out to move every rule with both tracks", names)
	}
	return fmt.Sprintf("its rules are %q", names)
}

// both finds the pair in a rule. A rule with one track only is not part of the
// split, unless it was named.
func (f *finder) both(r rule) ([2]int, bool) {
	var at, times [2]int
	for i, t := range f.want.Tracks {
		at[i], times[i] = r.holding(t)
	}
	named := len(f.want.Rules) > 0
	for i, t := range f.want.Tracks {
		switch other := times[1-i]; {
		case times[i] == 0 && named:
			f.find(fmt.Sprintf("/rules/%d", slices.Index(f.want.Rules, r.name)), "ruleWithoutTrack",
				fmt.Sprintf("give %s both backends, the one without traffic at weight 0, or name another rule", r),
				"%s does not hold the %s (%s); it%s", r, release.Track(i), t, r.contents())
		case times[i] > 1 && other > 0:
			f.find("", "backendTwice", "leave one entry of the backend, or name its port in the request",
				"%s holds the %s (%s) %d times, so its weight is not one number", r, release.Track(i), t, times[i])
		}
	}
	return at, times[0] == 1 && times[1] == 1
}

// contents lists a rule's backends for people.
func (r rule) contents() string {
	if len(r.ends) == 0 {
		return " has no backends"
	}
	var names []string
	for _, e := range r.ends {
		names = append(names, e.to.String())
	}
	return " has " + strings.Join(names, ", ")
}

// noneHoldsBoth explains a route without a rule to move. That is an error, since
// a release that moves nothing must not succeed.
func (f *finder) noneHoldsBoth(k kind, rules []rule) {
	var delegates, lone []string
	for _, r := range rules {
		if r.delegate != "" {
			delegates = append(delegates, r.delegate)
		}
		_, p := r.holding(f.want.Tracks[0])
		_, c := r.holding(f.want.Tracks[1])
		if p+c > 0 {
			lone = append(lone, r.String()+r.contents())
		}
	}
	switch {
	case len(delegates) > 0 && len(lone) == 0:
		f.find("/name", "delegate", fmt.Sprintf("name the VirtualService that has the weights: %s", strings.Join(delegates, " or ")),
			"it has no weights of its own for the tracks, and delegates to %s", strings.Join(delegates, ", "))
	case !k.gateway() && connections(f.obj, f.want.Tracks, f.want.Domain):
		f.find("", "connectionWeights", "route the traffic by http rules",
			"the tracks stand in tcp or tls rules; a change of those weights cuts connections and cannot be judged by requests")
	default:
		found := "its rules hold neither"
		switch {
		case len(lone) > 0:
			found = strings.Join(lone, "; ")
		case len(rules) == 0:
			found = "it has no rules"
		case len(rules) <= 4:
			var all []string
			for _, r := range rules {
				all = append(all, r.String()+r.contents())
			}
			found = strings.Join(all, "; ")
		}
		f.find("", "backendNotInRoute",
			"give one rule both backends, the one without traffic at weight 0, or correct the Services, ports and subsets of the tracks",
			"no rule holds both the primary (%s) and the canary (%s): %s", f.want.Tracks[0], f.want.Tracks[1], found)
	}
}
