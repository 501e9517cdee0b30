package house

import (
	"slices"
	"strings"
	"testing"
)

// neighbours says of our own rooms which others each may import. A room that is
// not here may not exist.
func neighbours() map[string][]string {
	core := []string{"release", "analysis", "drain"}
	return map[string][]string{
		"analysis":  {},
		"drain":     {},
		"release":   {"analysis", "drain"},
		"engine":    core,
		"preflight": core,
		"telemetry": core,
		"kube":      {"release"},
		"routing":   {"release", "kube"},
		"workload":  {"release", "kube"},
		"store":     {"release", "kube"},
		"sandbox":   {"release"},
		"lease":     {},
		"auth":      {},
		"api":       core, // it writes out what the judges said
		"notify":    {"api", "release"},
		"server":    {"api", "release"},
		"cli":       {"api"},
		"cmd":       {"*"},
		"kubetest":  {},
		"examples":  {},
		"test":      {},
	}
}

// keepers says of libraries which rooms may know them. The longest prefix
// counts; what is not here is free.
func keepers() map[string][]string {
	cluster := []string{"kube", "routing", "workload", "store", "lease", "auth", "notify", "cmd"}
	return map[string][]string{
		"go.uber.org/fx":                         {"cmd"},
		"go.uber.org/dig":                        {"cmd"},
		"github.com/knadh/koanf":                 {"cmd"},
		"github.com/spf13":                       {"cmd", "cli"},
		"github.com/labstack/echo":               {"server"},
		"github.com/danielgtaylor/huma":          {"server"},
		"k8s.io":                                 cluster,
		"sigs.k8s.io":                            cluster,
		"istio.io":                               cluster,
		"gonum.org":                              {"analysis"},
		"github.com/prometheus/prometheus":       {"sandbox"},
		promql + "/parser":                       {"sandbox", "telemetry"},
		"github.com/prometheus/prometheus/model": {"sandbox", "telemetry"},
		"github.com/prometheus/prometheus/tsdb":  {}, // it brings in cloud SDKs: tests only
		"testing":                                {},
		"pgregory.net/rapid":                     {},
		"go.uber.org/goleak":                     {},
		"github.com/stretchr/testify":            {},
	}
}

const promql = "github.com/prometheus/prometheus/promql"

// within reports whether an import path is, or lies under, another.
func within(path, under string) bool {
	return path == under || strings.HasPrefix(path, under+"/")
}

// kept returns the rooms that may know a library, if it is kept.
func kept(path string) (rooms []string, by string) {
	for prefix, in := range keepers() {
		if within(path, prefix) && len(prefix) > len(by) {
			rooms, by = in, prefix
		}
	}
	return rooms, by
}

func TestEveryRoomImportsOnlyItsNeighbours(t *testing.T) {
	for _, p := range ourPackages(t) {
		from := room(p.rel())
		may, known := neighbours()[from]
		if !known {
			t.Errorf("%s is a room that nobody has drawn: give it neighbours here, in .golangci.yml and in ARCHITECTURE.md", p.rel())
		}
		if forTests(p.rel()) {
			continue
		}
		for _, imp := range p.Imports {
			if within(imp, module) {
				rel := strings.TrimPrefix(imp, module+"/")
				if to := room(rel); to != from && !slices.Contains(may, to) && !slices.Contains(may, "*") {
					t.Errorf("%s imports %s: it may know %q only", p.rel(), rel, may)
				}
				if forTests(rel) {
					t.Errorf("%s imports %s, which is for tests", p.rel(), rel)
				}
			}
			if rooms, by := kept(imp); by != "" && !slices.Contains(rooms, from) {
				t.Errorf("%s imports %s: only %q may know %s", p.rel(), imp, rooms, by)
			}
		}
	}
}

// TestPureRoomsReachNothingThatActs follows the pure rooms' imports through
// every package that is not the standard library's. The standard library itself
// is judged at its door only, since fmt reaches os.
func TestPureRoomsReachNothingThatActs(t *testing.T) {
	acts := []string{
		"net", "os", "io/fs", "io/ioutil", "syscall", "log", "context", "database/sql", "plugin", "runtime/debug",
		"math/rand", "crypto/rand", "sync", "embed", "testing", "C",
	}
	all := packages(t)
	for _, name := range []string{"analysis", "drain", "release"} {
		start := module + "/internal/" + name
		if _, ok := all[start]; !ok {
			t.Fatalf("there is no package %s", start)
		}
		way := map[string]string{start: "internal/" + name}
		for queue := []string{start}; len(queue) > 0; queue = queue[1:] {
			p := all[queue[0]]
			for _, imp := range p.Imports {
				if slices.ContainsFunc(acts, func(a string) bool { return within(imp, a) }) && !harmless(p, imp) {
					t.Errorf("%s imports %s: the room is pure", way[p.ImportPath], imp)
				}
				next := all[imp]
				if next.Standard || way[imp] != "" {
					continue
				}
				if !next.ours() && !within(imp, "gonum.org/v1/gonum") {
					t.Errorf("%s imports %s: the pure rooms know no library but gonum", way[p.ImportPath], imp)
				}
				way[imp] = way[p.ImportPath] + " -> " + strings.TrimPrefix(imp, module+"/")
				queue = append(queue, imp)
			}
		}
	}
}

// harmless excuses what a library of mathematics imports beside what is used of
// it: distributions take a source of random numbers from their caller.
func harmless(p pkg, imp string) bool {
	return within(p.ImportPath, "gonum.org/v1/gonum") && within(imp, "math/rand")
}

func TestProgramsHoldNothingThatIsForTests(t *testing.T) {
	all := packages(t)
	for _, start := range []string{module + "/cmd/shifter", module + "/examples/go-api"} {
		if _, ok := all[start]; !ok {
			t.Fatalf("there is no program %s", start)
		}
		seen := map[string]bool{start: true}
		for queue := []string{start}; len(queue) > 0; queue = queue[1:] {
			for _, imp := range all[queue[0]].Imports {
				p := all[imp]
				if p.Standard || seen[imp] {
					continue
				}
				if p.ours() && forTests(p.rel()) {
					t.Errorf("%s reaches %s, which is for tests", start, p.rel())
				}
				seen[imp] = true
				queue = append(queue, imp)
			}
		}
	}
}
