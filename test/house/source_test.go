package house

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// source parses a package's files, without its tests.
func source(t *testing.T, p pkg) (*token.FileSet, []*ast.File) {
	t.Helper()
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	return fset, files
}

// at says where something stands, with the file's name alone.
func at(fset *token.FileSet, p pkg, pos token.Pos) string {
	where := fset.Position(pos)
	where.Filename = p.rel() + "/" + filepath.Base(where.Filename)
	return where.String()
}

func TestPureRoomsReadNoClock(t *testing.T) {
	clocks := []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}
	for _, p := range ourPackages(t) {
		if !slices.Contains([]string{"analysis", "drain", "release"}, room(p.rel())) || forTests(p.rel()) {
			continue
		}
		fset, files := source(t, p)
		for _, f := range files {
			ast.Inspect(f, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.GoStmt:
					t.Errorf("%s starts a goroutine: the room is pure", at(fset, p, n.Pos()))
				case *ast.SelectorExpr:
					if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && slices.Contains(clocks, n.Sel.Name) {
						t.Errorf("%s reads time.%s: the room gets the time as an argument", at(fset, p, n.Pos()), n.Sel.Name)
					}
				}
				return true
			})
		}
	}
}

// TestNothingGlobalIsWritten lets a package have tables, and nothing that
// changes: what is written at run time belongs to somebody. Taking the address
// counts as writing.
func TestNothingGlobalIsWritten(t *testing.T) {
	for _, p := range ourPackages(t) {
		fset, files := source(t, p)
		isGlobal := globals(p, fset, files)
		written := func(e ast.Expr) {
			if id := base(e); id != nil && isGlobal(id) {
				t.Errorf("%s writes the package's variable %s", at(fset, p, e.Pos()), id.Name)
			}
		}
		for _, f := range files {
			ast.Inspect(f, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.AssignStmt:
					for _, e := range n.Lhs {
						written(e)
					}
				case *ast.IncDecStmt:
					written(n.X)
				case *ast.UnaryExpr:
					if n.Op == token.AND {
						written(n.X)
					}
				case *ast.CallExpr:
					if f, ok := n.Fun.(*ast.Ident); ok && (f.Name == "delete" || f.Name == "clear") && len(n.Args) > 0 {
						written(n.Args[0])
					}
				case *ast.FuncDecl:
					if n.Recv == nil && n.Name.Name == "init" {
						t.Errorf("%s is an init function: what a program does begins in main", at(fset, p, n.Pos()))
					}
				}
				return true
			})
		}
	}
}

// globals tells which names stand for a variable of the package. Only names are
// resolved: nothing is imported, and what stays unknown for that is no matter.
func globals(p pkg, fset *token.FileSet, files []*ast.File) func(*ast.Ident) bool {
	info := types.Info{Uses: map[*ast.Ident]types.Object{}}
	lenient := types.Config{Importer: blind{}, Error: func(error) {}}
	checked, _ := lenient.Check(p.ImportPath, fset, files, &info) // it complains of the imports, as expected
	return func(id *ast.Ident) bool {
		v, ok := info.Uses[id].(*types.Var)
		return ok && v.Parent() == checked.Scope()
	}
}

// blind imports nothing.
type blind struct{}

func (blind) Import(string) (*types.Package, error) { return nil, errors.New("not needed") }

// base is the variable that an expression is a part of.
func base(e ast.Expr) *ast.Ident {
	for {
		switch x := e.(type) {
		case *ast.Ident:
			return x
		case *ast.SelectorExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		default:
			return nil
		}
	}
}

func TestEveryPackageSaysWhatItIsFor(t *testing.T) {
	for _, p := range ourPackages(t) {
		fset, files := source(t, p)
		var in []string
		for _, f := range files {
			if f.Doc != nil {
				in = append(in, filepath.Base(fset.Position(f.Pos()).Filename))
			}
		}
		want := "doc.go"
		if p.Name == "main" && slices.Equal(in, []string{"main.go"}) {
			want = "main.go" // a program may say it where it begins
		}
		if !slices.Equal(in, []string{want}) {
			t.Errorf("%s has its package comment in %q: it belongs in doc.go, once", p.rel(), in)
			continue
		}
		first := "Package " + p.Name + " "
		if p.Name == "main" {
			first = "Command " + filepath.Base(p.Dir) + " "
		}
		if doc := files[slices.IndexFunc(files, func(f *ast.File) bool { return f.Doc != nil })].Doc.Text(); !strings.HasPrefix(doc, first) || len(doc) < 80 {
			t.Errorf("%s: its package comment should begin with %q and say more than a name does:\n%s", p.rel(), first, doc)
		}
	}
}
