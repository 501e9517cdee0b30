package house

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// files lists the files of the project: those that git knows or would add, else
// all of them.
func files(t *testing.T) []string {
	t.Helper()
	dir := root(t)
	var names []string
	cmd := exec.Command("git", "-C", dir, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	if out, err := cmd.Output(); err == nil {
		names = strings.Split(strings.TrimRight(string(out), "\x00"), "\x00")
	} else {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && (d.Name() == ".git" || path == filepath.Join(dir, "bin")):
				return filepath.SkipDir
			case d.Type().IsRegular():
				names = append(names, strings.TrimPrefix(path, dir+string(filepath.Separator)))
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(names) < 50 {
		t.Fatalf("found %d files of the project: too few to have judged anything", len(names))
	}
	return names
}

// read returns a file's text; empty for what is no text, or is gone from the
// folder but not yet from git.
func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root(t), name))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	if bytes.ContainsRune(b, 0) {
		return ""
	}
	return string(b)
}

// TestTheProjectSpeaksOfItselfAlone keeps out what is true on one machine only:
// its folders, and where it gets packages from.
func TestTheProjectSpeaksOfItselfAlone(t *testing.T) {
	// Written in two halves, so that this file does not find itself.
	var not []string
	for _, halves := range [][2]string{
		{"/wo", "rk/"},
		{"/fa", "rm/"},
		{".lib", "rary"},
		{"proxy.go", "lang.org"},
		{"sum.go", "lang.org"},
		{"pypi", ".org"},
		{"registry.", "npmjs"},
		{"crates", ".io"},
		{"repo1.", "maven"},
		{"deb.de", "bian.org"},
	} {
		not = append(not, halves[0]+halves[1])
	}
	for _, name := range files(t) {
		if base := filepath.Base(name); base == "go.sum" || base == "go.mod" {
			continue
		}
		for i, line := range strings.Split(read(t, name), "\n") {
			for _, word := range not {
				if strings.Contains(line, word) {
					t.Errorf("%s:%d names %s: %s", name, i+1, word, strings.TrimSpace(line))
				}
			}
		}
	}
}

var (
	link    = regexp.MustCompile(`\]\(<?([^)\s>]+)>?(?:\s+"[^"]*")?\)`)
	code    = regexp.MustCompile("`[^`]+`")
	fence   = regexp.MustCompile("^\\s*(```|~~~)")
	heading = regexp.MustCompile(`^#{1,6} +(.*?) *#*$`)
	making  = regexp.MustCompile(`(?:^|[;&|]\s*|\$ )make ([^;&|#]*)`)
	target  = regexp.MustCompile(`(?m)^([a-z][a-z0-9-]*):`)
)

// page is a Markdown file taken apart.
type page struct {
	links, anchors, code []string
}

func parse(text string) page {
	var p page
	fenced := false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		switch {
		case fence.MatchString(line):
			fenced = !fenced
		case fenced:
			p.code = append(p.code, strings.TrimSpace(line))
		default:
			for _, span := range code.FindAllString(line, -1) {
				p.code = append(p.code, strings.Trim(span, "` "))
			}
			if m := heading.FindStringSubmatch(line); m != nil {
				p.anchors = append(p.anchors, slug(m[1]))
			}
			for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(line, "code"), -1) {
				p.links = append(p.links, m[1])
			}
		}
	}
	return p
}

// slug is a heading's anchor.
func slug(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
}

func pages(t *testing.T) map[string]page {
	t.Helper()
	all := map[string]page{}
	for _, name := range files(t) {
		if filepath.Ext(name) == ".md" {
			all[name] = parse(read(t, name))
		}
	}
	return all
}

func TestEveryLinkLeadsSomewhere(t *testing.T) {
	all := pages(t)
	checked := 0
	for name, p := range all {
		for _, to := range p.links {
			if strings.Contains(to, "://") || strings.HasPrefix(to, "mailto:") {
				continue
			}
			checked++
			file, anchor, _ := strings.Cut(to, "#")
			at := name
			if file != "" {
				at = filepath.Join(filepath.Dir(name), file)
			}
			if _, err := os.Stat(filepath.Join(root(t), at)); err != nil {
				t.Errorf("%s links to %s, which is not there", name, to)
				continue
			}
			if other, ok := all[at]; ok && anchor != "" && !slices.Contains(other.anchors, anchor) {
				t.Errorf("%s links to %s: %s has no such heading", name, to, at)
			}
		}
	}
	if checked == 0 {
		t.Error("no link was found at all")
	}
}

func TestEveryMakeTargetThatIsNamedExists(t *testing.T) {
	var targets []string
	for _, m := range target.FindAllStringSubmatch(read(t, "Makefile"), -1) {
		targets = append(targets, m[1])
	}
	checked := 0
	for name, p := range pages(t) {
		for _, line := range p.code {
			for _, m := range making.FindAllStringSubmatch(line, -1) {
				for _, word := range strings.Fields(m[1]) {
					if strings.Contains(word, "=") || strings.HasPrefix(word, "-") {
						continue
					}
					checked++
					if !slices.Contains(targets, word) {
						t.Errorf("%s says %q: the Makefile has no target %s", name, line, word)
					}
				}
			}
		}
	}
	if checked == 0 {
		t.Error("no document says how to make anything")
	}
}

func TestArchitectureNamesEveryRoom(t *testing.T) {
	text, linter := read(t, "ARCHITECTURE.md"), read(t, ".golangci.yml")
	for _, p := range ourPackages(t) {
		rel := p.rel()
		if !strings.HasPrefix(rel, "internal/") && !strings.HasPrefix(rel, "cmd/") {
			continue
		}
		if !strings.Contains(text, "`"+rel+"`") {
			t.Errorf("ARCHITECTURE.md does not name `%s`", rel)
		}
		if strings.Count(rel, "/") == 1 && !strings.Contains(linter, rel+"/") {
			t.Errorf(".golangci.yml says nothing about %s/", rel)
		}
	}
}
