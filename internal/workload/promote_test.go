package workload_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/shifter-dev/shifter/internal/kubetest"
	"github.com/shifter-dev/shifter/internal/release"
	"github.com/shifter-dev/shifter/internal/workload"
)

func promote(b release.Binding, image string) release.Promote {
	p := b.Tracks[release.Primary]
	return release.Promote{Track: release.Primary, UID: p.UID, From: p.Template, Images: map[string]string{"app": image}}
}

func TestAPromoteIsOneGuardedStrictPatchOfTheImageOnly(t *testing.T) {
	c := pair(t)
	w := c.workloads(workload.Config{})
	b := admit(t, w)
	for range 2 {
		if err := w.Promote(t.Context(), promote(b, "shop/app:9")); err != nil {
			t.Fatal(err)
		}
	}
	patches := c.Asked(http.MethodPatch)
	if len(patches) != 1 || patches[0].Query.Get("fieldManager") != "shifter" || patches[0].Query.Get("fieldValidation") != "Strict" {
		t.Fatalf("patched %+v", patches)
	}
	var ops []struct{ Op, Path string }
	if err := json.Unmarshal([]byte(patches[0].Body), &ops); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, o := range ops {
		got = append(got, o.Op+" "+o.Path[strings.LastIndex(o.Path, "/")+1:])
	}
	if want := "test uid, test resourceVersion, test name, test image, replace image"; strings.Join(got, ", ") != want {
		t.Errorf("the patch is %s, want %s", strings.Join(got, ", "), want)
	}
	c.settle("app")
	if s := look(t, w, b)[0]; s.Template.Val.Images["app"] != "shop/app:9" || s.Template.Val.Hash == b.Tracks[0].Template.Hash {
		t.Errorf("the template is %+v", s.Template.Val)
	}
}

func TestAPromoteIsAConflictWhenSomebodyElseWritesInBetween(t *testing.T) {
	c := pair(t)
	w := c.workloads(workload.Config{})
	b := admit(t, w)
	c.before(http.MethodPatch, func() {
		c.edit("app", func(o kubetest.Object) { kubetest.In(o, "spec")["replicas"] = int64(9) })
	})
	if err := w.Promote(t.Context(), promote(b, "shop/app:9")); !errors.Is(err, release.ErrConflict) {
		t.Fatalf("got %v", err)
	}
	if s := look(t, w, b)[0]; s.Template.Val.Hash != b.Tracks[0].Template.Hash {
		t.Errorf("the template is %+v", s.Template.Val)
	}
}

func TestAPromoteOfAPausedDeploymentIsRefused(t *testing.T) {
	c := pair(t)
	w := c.workloads(workload.Config{})
	b := admit(t, w)
	c.edit("app", func(o kubetest.Object) { kubetest.In(o, "spec")["paused"] = true })
	if err := w.Promote(t.Context(), promote(b, "shop/app:9")); !errors.Is(err, release.ErrRefused) || !strings.Contains(err.Error(), "paused") {
		t.Errorf("got %v", err)
	}
}

func TestWhatIsAgainstAPromoteIsFound(t *testing.T) {
	for code, change := range map[string]func(kubetest.Object){
		"":          func(kubetest.Object) {},
		"noHistory": func(o kubetest.Object) { kubetest.In(o, "spec")["revisionHistoryLimit"] = int64(0) },
		"templatesDiffer": func(o kubetest.Object) {
			kubetest.In(template(o), "spec")["serviceAccountName"] = "another"
		},
	} {
		c := pair(t)
		w := c.workloads(workload.Config{})
		b := admit(t, w)
		c.edit("app", change)
		err := w.Promotable(t.Context(), b)
		var f release.Finding
		if errors.As(err, &f) != (code != "") || f.Code != code {
			t.Errorf("%q: %v", code, err)
		}
		if code == "templatesDiffer" && !strings.Contains(f.Message, "spec.serviceAccountName") {
			t.Errorf("the difference is not named: %s", f.Message)
		}
	}
}
