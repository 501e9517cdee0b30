//go:build !nosandbox

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// appBinary is the sample API's binary; clean removes it if it was built here.
type appBinary struct {
	path string
	dir  string
}

func (a appBinary) clean() {
	if a.dir != "" {
		os.RemoveAll(a.dir)
	}
}

const appPackage = "github.com/shifter-dev/shifter/examples/go-api"

// findApp looks for the sample API: where it was named, else beside this binary,
// else it is built, which needs the module and the Go toolchain.
func findApp(ctx context.Context, named string) (appBinary, error) {
	if named != "" {
		if info, err := os.Stat(named); err != nil || info.IsDir() {
			return appBinary{}, fmt.Errorf("--app %s: there is no such file; name the go-api binary, or build it with: make build", named)
		}
		return appBinary{path: named}, nil
	}
	if self, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(self), appName())
		if info, err := os.Stat(beside); err == nil && info.Mode().IsRegular() {
			return appBinary{path: beside}, nil
		}
	}
	return buildApp(ctx)
}

func appName() string {
	if runtime.GOOS == "windows" {
		return "go-api.exe"
	}
	return "go-api"
}

func buildApp(ctx context.Context) (appBinary, error) {
	missing := errors.New("the sample API go-api is neither beside this binary nor can it be built here; run make build in the module, or name it with --app PATH")
	if exec.CommandContext(ctx, "go", "list", appPackage).Run() != nil {
		return appBinary{}, missing
	}
	dir, err := os.MkdirTemp("", "shifter-demo-")
	if err != nil {
		return appBinary{}, err
	}
	a := appBinary{path: filepath.Join(dir, appName()), dir: dir}
	out, err := exec.CommandContext(ctx, "go", "build", "-o", a.path, appPackage).CombinedOutput()
	if err != nil {
		a.clean()
		return appBinary{}, fmt.Errorf("%w: go build says: %s", missing, out)
	}
	return a, nil
}
