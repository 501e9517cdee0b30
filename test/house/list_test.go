package house

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/shifter-dev/shifter"

// pkg is what `go list` says of a package, without its tests.
type pkg struct {
	ImportPath string
	Name       string
	Dir        string
	Doc        string
	Standard   bool
	GoFiles    []string
	Imports    []string
}

// ours reports whether the package is of this module.
func (p pkg) ours() bool {
	return p.ImportPath == module || strings.HasPrefix(p.ImportPath, module+"/")
}

// rel is the package's folder in the module.
func (p pkg) rel() string { return strings.TrimPrefix(p.ImportPath, module+"/") }

// room names the room that a folder belongs to: the folder under internal, else
// the first one (cmd, examples, test).
func room(rel string) string {
	parts := strings.Split(rel, "/")
	if parts[0] == "internal" && len(parts) > 1 {
		return parts[1]
	}
	return parts[0]
}

// forTests reports whether a folder only helps tests: a contract suite, or a
// package named like httptest. It may look into any room, and no program may
// contain it.
func forTests(rel string) bool {
	base := path.Base(rel)
	return base == "contract" || strings.HasSuffix(base, "test")
}

// root is the folder of the module: tests run in their package's folder.
func root(tb testing.TB) string {
	tb.Helper()
	dir, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		tb.Fatal(err)
	}
	return dir
}

// list asks the go command once for every package of the module and all that
// they reach.
var list = sync.OnceValues(func() (map[string]pkg, error) {
	cmd := exec.Command("go", "list", "-deps", "-json=ImportPath,Name,Dir,Doc,Standard,GoFiles,Imports", module+"/...")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, stderr.Bytes())
	}
	all := map[string]pkg{}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		all[p.ImportPath] = p
	}
})

func packages(t *testing.T) map[string]pkg {
	t.Helper()
	all, err := list()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// ourPackages lists the module's own packages in order.
func ourPackages(t *testing.T) []pkg {
	t.Helper()
	var ours []pkg
	for _, p := range packages(t) {
		if p.ours() {
			ours = append(ours, p)
		}
	}
	slices.SortFunc(ours, func(a, b pkg) int { return strings.Compare(a.ImportPath, b.ImportPath) })
	if len(ours) < 10 {
		t.Fatalf("go list found %d packages of this module: too few to have judged anything", len(ours))
	}
	return ours
}
