package release

import (
	"strings"
	"testing"
)

func TestTheNextEventSaysWhatIsKnown(t *testing.T) {
	growing := "steps 50,100\n" + toGating + "after 5m\nready primary 3\nverdict certified\nturn\n"
	for name, c := range map[string]struct{ story, want string }{
		"pods that are counted":     {growing, "(now 3)"},
		"pods that cannot be seen":  {growing + "api away all\n", "(now an unknown number)"},
		"another shifter is there":  {toGating + "epoch 7\nturn\n", "giving up, unless the other shifter leaves"},
		"ended in spite of another": {toGating + "epoch 7\nturn\nafter 61s\nturn\n", ""},
	} {
		s := told(t, c.story)
		if got := s.r.View(s.o).Next.Action; c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
