package release

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

const designBegin, designEnd = "<!-- generated from Transitions -->\n", "<!-- end of the generated part -->\n"

// TestDesignIsDrawnFromTheTable compares the drawing in DESIGN.md with the
// transition table; -rewrite draws it anew.
func TestDesignIsDrawnFromTheTable(t *testing.T) {
	b, err := os.ReadFile("DESIGN.md")
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(b), designBegin)
	_, after, ok2 := strings.Cut(rest, designEnd)
	if !ok || !ok2 {
		t.Fatal("DESIGN.md has lost its markers")
	}
	want := before + designBegin + drawing() + designEnd + after
	if *rewrite {
		if err := os.WriteFile("DESIGN.md", []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want != string(b) {
		t.Error("DESIGN.md is not what the transition table says; run with -rewrite and read the difference")
	}
}

// drawing is a state diagram and the table that explains its arrows.
func drawing() string {
	var s strings.Builder
	s.WriteString("```mermaid\nstateDiagram-v2\n    [*] --> pending\n")
	for _, tr := range Transitions() {
		fmt.Fprintf(&s, "    %s --> %s\n", tr.From, tr.To)
	}
	for _, p := range Phases() {
		if p.Terminal() {
			fmt.Fprintf(&s, "    %s --> [*]\n", p)
		}
	}
	s.WriteString("```\n\n| from | to | when |\n|---|---|---|\n")
	for _, tr := range Transitions() {
		fmt.Fprintf(&s, "| %s | %s | %s |\n", tr.From, tr.To, tr.When)
	}
	return s.String()
}

func TestEveryPhaseThatIsNotTerminalHasAWayOut(t *testing.T) {
	for _, p := range Phases() {
		out := slices.ContainsFunc(Transitions(), func(tr Transition) bool { return tr.From == p })
		if out == p.Terminal() {
			t.Errorf("%s: terminal is %v, has a way out is %v", p, p.Terminal(), out)
		}
	}
}

func TestEveryReasonHasASentence(t *testing.T) {
	for _, r := range Reasons() {
		if s := r.Sentence(); !strings.HasSuffix(s, ".") || s[0] < 'A' || s[0] > 'Z' {
			t.Errorf("%s: %q is not a sentence", r, s)
		}
	}
	for c := range PolicyFor("prod", 0) {
		if Reason(c).Sentence() == "" {
			t.Errorf("class %s has no reason with a sentence", c)
		}
	}
}

func TestEveryPresetAnswersEveryClassAndEndsItsChains(t *testing.T) {
	classes := len(PolicyFor("prod", 0))
	for _, p := range Presets() {
		pol := PolicyFor(p, 0)
		if len(pol) != classes {
			t.Errorf("%s answers %d classes of %d", p, len(pol), classes)
		}
		for c, r := range pol {
			for last := &r; last != nil; last = last.Then {
				if last.Then == nil && (last.Do == DoHold || last.Do == DoRetry) {
					t.Errorf("%s: the chain of %s ends with %s, so nothing follows", p, c, last.Do)
				}
				if last.Do == DoHold && last.For <= 0 {
					t.Errorf("%s: %s holds without a deadline", p, c)
				}
			}
		}
	}
}
