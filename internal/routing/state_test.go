package routing_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/shifter-dev/shifter/internal/kubetest"
	"github.com/shifter-dev/shifter/internal/release"
	"github.com/shifter-dev/shifter/internal/routing"
)

func TestAcceptance(t *testing.T) {
	const yes = `
    - {type: Accepted, status: "True", reason: Accepted, message: "", observedGeneration: 5, lastTransitionTime: "2026-11-01T00:00:00Z"}
    - {type: ResolvedRefs, status: "True", reason: ResolvedRefs, message: "", observedGeneration: 5, lastTransitionTime: "2026-11-01T00:00:00Z"}`
	gw := func(conds string) string {
		return "\n  - parentRef: {group: gateway.networking.k8s.io, kind: Gateway, name: gw}\n    controllerName: a/b\n    conditions:" + conds
	}
	old := strings.ReplaceAll(yes, "observedGeneration: 5", "observedGeneration: 4")
	for name, c := range map[string]struct {
		parents, status string
		want            release.Acceptance
		says            string
	}{
		"confirmed at this generation":         {status: gw(yes), want: release.AcceptedYes},
		"no status":                            {want: release.AcceptedUnknown},
		"an older generation":                  {status: gw(old), want: release.AcceptedUnknown},
		"a status without generations":         {status: gw(strings.ReplaceAll(yes, "observedGeneration: 5, ", "")), want: release.AcceptedUnknown},
		"references not said":                  {status: gw(yes[:strings.LastIndex(yes, "\n")]), want: release.AcceptedUnknown},
		"another parent of the name":           {status: strings.Replace(gw(yes), "kind: Gateway", "kind: Service", 1), want: release.AcceptedUnknown},
		"one of two parents":                   {parents: "[{name: gw}, {name: gw2}]", status: gw(yes), want: release.AcceptedUnknown},
		"two sections of one gateway":          {parents: "[{name: gw, sectionName: a}, {name: gw, sectionName: b}]", status: gw(yes), want: release.AcceptedUnknown},
		"a parent that is no more in the spec": {status: gw(yes) + strings.Replace(gw(strings.ReplaceAll(yes, `"True"`, `"False"`)), "name: gw", "name: gone", 1), want: release.AcceptedYes},
		"refused":                              {status: gw(strings.Replace(yes, `"True", reason: Accepted, message: ""`, `"False", reason: NoMatchingParent, message: "no listener"`, 1)), want: release.AcceptedRefused, says: "NoMatchingParent: no listener"},
		"a backend that is not there":          {status: gw(strings.Replace(yes, `"True", reason: ResolvedRefs, message: ""`, `"False", reason: BackendNotFound, message: "no Service x"`, 1)), want: release.AcceptedRefused, says: "a/b, for Gateway gw: BackendNotFound: no Service x"},
		"refused in an older generation":       {status: gw(strings.ReplaceAll(old, `"True"`, `"False"`)), want: release.AcceptedUnknown},
		"an older state is served":             {status: gw(old + strings.ReplaceAll(yes[:strings.LastIndex(yes, "\n")], "type: Accepted, status: \"True\", reason: Accepted, message: \"\"", `type: PartiallyInvalid, status: "True", reason: UnsupportedValue, message: "Fall Back"`)), want: release.AcceptedRefused, says: "Fall Back"},
		"one controller of two says no":        {status: gw(yes) + gw(strings.Replace(yes, `"True", reason: Accepted, message: ""`, `"False", reason: X, message: "y"`, 1)), want: release.AcceptedRefused, says: "X: y"},
		"no parents at all":                    {parents: "[]", status: gw(yes), want: release.AcceptedUnknown},
		"a status that cannot be read":         {status: "\n  - 7", want: release.AcceptedUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			if c.parents == "" {
				c.parents = "[{name: gw}]"
			}
			if c.status == "" {
				c.status = " []"
			}
			o := kubetest.YAML(t, "kind: HTTPRoute\nmetadata: {namespace: demo, generation: 5}\nspec: {parentRefs: "+c.parents+"}\nstatus:\n  parents:"+c.status)
			got, says := routing.Acceptance(&unstructured.Unstructured{Object: o})
			if got != c.want || !strings.Contains(says, c.says) || (says != "") != (got == release.AcceptedRefused) {
				t.Errorf("got %s %q, want %s %q", got, says, c.want, c.says)
			}
		})
	}
}

func TestForeignIsWhoOwnsTheRules(t *testing.T) {
	entry := func(manager, at, fields string) string {
		return "  - {manager: " + manager + ", operation: Update, time: \"" + at + "\", fieldsV1: {" + fields + "}}\n"
	}
	const rules, labels = `"f:spec": {"f:rules": {}, "f:hostnames": {}}`, `"f:metadata": {"f:labels": {}}`
	for name, c := range map[string]struct{ entries, want string }{
		"nobody":                         {"", ""},
		"the creator":                    {entry("argocd-controller", "2026-11-01T00:00:00Z", rules), "argocd-controller"},
		"us":                             {entry("shifter", "2026-11-01T00:00:00Z", rules), ""},
		"us and who writes the same":     {entry("flux", "2026-11-01T00:00:02Z", rules) + entry("shifter", "2026-11-01T00:00:01Z", rules), ""},
		"who wrote something else":       {entry("shifter", "2026-11-01T00:00:00Z", rules) + entry("kubectl", "2026-11-01T00:00:09Z", labels), ""},
		"we, but only labels":            {entry("shifter", "2026-11-01T00:00:09Z", labels) + entry("kubectl", "2026-11-01T00:00:01Z", rules), "kubectl"},
		"the last of two":                {entry("b", "2026-11-01T00:00:09Z", rules) + entry("a", "2026-11-01T00:00:01Z", rules), "b"},
		"the first of two without times": {entry("a", "", rules) + entry("b", "", rules), "a"},
		"a status writer":                {strings.Replace(entry("gw", "2026-11-01T00:00:00Z", rules), "operation", "subresource: status, operation", 1), ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := kubetest.YAML(t, "metadata:\n  managedFields:\n"+c.entries)
			if got := routing.Foreign(&unstructured.Unstructured{Object: o}, "rules"); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
