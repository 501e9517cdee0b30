package kube_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/shifter-dev/shifter/internal/kube"
	"github.com/shifter-dev/shifter/internal/release"
)

func answer(code int32, details *metav1.StatusDetails) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Details: details}}
}

func TestEveryAnswerHasItsKind(t *testing.T) {
	some := &metav1.StatusDetails{Name: "app", Kind: "configmaps"}
	causes := &metav1.StatusDetails{Causes: []metav1.StatusCause{{Field: "data"}}}
	for name, c := range map[string]struct {
		err         error
		want, patch error
	}{
		"no answer":                      {err: io.ErrUnexpectedEOF, want: release.ErrUnavailable},
		"no answer in time":              {err: context.DeadlineExceeded, want: release.ErrUnavailable},
		"bad request":                    {err: answer(400, nil), want: release.ErrRefused},
		"no credentials":                 {err: answer(401, nil), want: release.ErrForbidden},
		"no right":                       {err: answer(403, some), want: release.ErrForbidden},
		"a webhook that denies":          {err: answer(403, nil), want: release.ErrRefused},
		"not there":                      {err: answer(404, some), want: release.ErrNotFound},
		"a conflict":                     {err: answer(409, some), want: release.ErrConflict},
		"a version that is too old":      {err: answer(410, nil), want: release.ErrUnavailable},
		"too large":                      {err: answer(413, nil), want: release.ErrRefused},
		"the schema":                     {err: answer(422, causes), want: release.ErrRefused},
		"a failed test of a patch":       {err: answer(422, &metav1.StatusDetails{}), want: release.ErrRefused, patch: release.ErrConflict},
		"a failed test, without details": {err: answer(422, nil), want: release.ErrRefused, patch: release.ErrConflict},
		"too many":                       {err: answer(429, nil), want: release.ErrUnavailable},
		"a fault":                        {err: answer(500, causes), want: release.ErrUnavailable},
		"not ready":                      {err: answer(503, nil), want: release.ErrUnavailable},
		"no code":                        {err: answer(0, nil), want: release.ErrUnavailable},
		"wrapped":                        {err: fmt.Errorf("while asking: %w", answer(409, some)), want: release.ErrConflict},
	} {
		if c.patch == nil {
			c.patch = c.want
		}
		for how, got := range map[string]error{"Explain": kube.Explain(c.err), "ExplainWrite": kube.ExplainWrite(c.err)} {
			want := c.want
			if how == "ExplainWrite" {
				want = c.patch
			}
			if !errors.Is(got, want) || !errors.Is(got, c.err) {
				t.Errorf("%s: %s says %v, want %v", name, how, got, want)
			}
		}
	}
	if kube.Explain(nil) != nil || kube.ExplainWrite(nil) != nil {
		t.Error("no error is one")
	}
}

func TestWhatIsNotThereIsToldApart(t *testing.T) {
	r := schema.GroupResource{Resource: "configmaps"}
	object := apierrors.NewNotFound(r, "a")
	namespace := apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "x")
	path := apierrors.NewGenericServerResponse(404, "get", r, "a", "404 page not found", 0, true)
	for name, c := range map[string]struct {
		err                    error
		notServed, noNamespace bool
	}{
		"the object": {err: object}, "the namespace": {err: namespace, noNamespace: true}, "the path": {err: path, notServed: true},
		"nothing": {}, "no answer": {err: io.EOF},
	} {
		if kube.NotServed(c.err) != c.notServed || kube.NoNamespace(c.err) != c.noNamespace {
			t.Errorf("%s: not served %v, no namespace %v", name, kube.NotServed(c.err), kube.NoNamespace(c.err))
		}
	}
}

func TestACallHasItsDeadlineWithinItsCallers(t *testing.T) {
	ctx, cancel, err := kube.Within(t.Context(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if end, ok := ctx.Deadline(); !ok || time.Until(end) > time.Hour {
		t.Errorf("it ends at %s", end)
	}
	cancel()
	if _, _, err := kube.Within(ctx, time.Hour); !errors.Is(err, release.ErrUnavailable) || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
