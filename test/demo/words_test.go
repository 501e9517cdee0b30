//go:build scenarios

package demo

import (
	"strings"
	"testing"
)

// mentions checks that the story on standard error has some words.
func (o outcome) mentions(t *testing.T, word string) {
	t.Helper()
	if !strings.Contains(o.stderr, word) {
		t.Errorf("the story does not say %q:\n%s", word, o.stderr)
	}
}

// isVersion reports whether every image of a template has the tag.
func isVersion(tm template, tag string) bool {
	for _, image := range tm.Images {
		if !strings.HasSuffix(image, ":"+tag) {
			return false
		}
	}
	return len(tm.Images) > 0
}
