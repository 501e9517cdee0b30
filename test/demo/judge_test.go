//go:build scenarios

package demo

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// alwaysPass writes an overlay for `go build` in which the gate's Verdict passes
// everything once the warm-up is over, and returns its path. The rest of the
// judge, and all the rest of shifter, is as it is.
func alwaysPass(t *testing.T) string {
	t.Helper()
	name, text, fn := verdict(t)
	sign := string(text[fn.Type.Params.Pos()-1 : fn.Type.End()-1])
	var args []string
	for _, field := range fn.Type.Params.List {
		for _, arg := range field.Names {
			args = append(args, arg.Name)
		}
	}
	if len(args) != 3 {
		t.Fatalf("the overlay expects settings, health and now as the arguments of Gate.Verdict, which has %q", args)
	}
	at := fn.Name.Pos() - 1
	var b strings.Builder
	b.Write(text[:at])
	b.WriteString("verdictAsJudged")
	b.Write(text[int(at)+len(fn.Name.Name):])
	fmt.Fprintf(&b, `
// Verdict passes whatever is past the warm-up: a test is building this.
func (g Gate) Verdict%s {
	v := g.verdictAsJudged(%s)
	switch {
	case v.Scrapes < %s.MinScrapes:
		v.Outcome, v.Reason = Inconclusive, WarmingUp
	case v.Share >= 100:
		v.Outcome, v.Reason = Pass, SoakClean
	default:
		v.Outcome, v.Reason = Pass, Certified
	}
	return v
}
`, sign, strings.Join(args, ", "), args[0])

	dir := t.TempDir()
	other := filepath.Join(dir, "always_pass.go")
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{name: other}})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "overlay.json")
	for file, content := range map[string][]byte{other: []byte(b.String()), path: overlay} {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// verdict finds the file that holds Gate.Verdict.
func verdict(t *testing.T) (name string, text []byte, fn *ast.FuncDecl) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(root(t), "internal", "analysis", "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		// One file in one set: a position is an offset into text, from 1.
		f, err := parser.ParseFile(token.NewFileSet(), name, text, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Name.Name == "Verdict" && receiver(fn) == "Gate" {
				return name, text, fn
			}
		}
	}
	t.Fatal("internal/analysis has no Gate.Verdict any more: tell this test where the gate answers")
	return "", nil, nil
}

func receiver(fn *ast.FuncDecl) string {
	if fn.Recv == nil || len(fn.Recv.List) != 1 {
		return ""
	}
	if id, ok := fn.Recv.List[0].Type.(*ast.Ident); ok {
		return id.Name
	}
	return ""
}
