package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shifter-dev/shifter/internal/release"
)

// Explain gives an error of the API server its kind, and is nil for nil. It goes
// by codes, reasons and details, never by words.
func Explain(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", kind(err), err)
}

// ExplainWrite is Explain for what the hands write: a 422 that names no cause is a
// JSON Patch with a test that failed, and so a conflict.
func ExplainWrite(err error) error {
	if s, ok := status(err); ok && s.Code == http.StatusUnprocessableEntity && (s.Details == nil || len(s.Details.Causes) == 0) {
		return fmt.Errorf("%w: %w", release.ErrConflict, err)
	}
	return Explain(err)
}

func status(err error) (metav1.Status, bool) {
	var s apierrors.APIStatus
	if !errors.As(err, &s) {
		return metav1.Status{}, false
	}
	return s.Status(), true
}

func kind(err error) error {
	s, ok := status(err)
	switch {
	case !ok:
		return release.ErrUnavailable // no answer at all, or one that nobody sent on purpose
	case s.Code == http.StatusNotFound:
		return release.ErrNotFound
	case s.Code == http.StatusConflict:
		return release.ErrConflict
	case s.Code == http.StatusUnauthorized:
		return release.ErrForbidden
	case s.Code == http.StatusForbidden && s.Details != nil:
		return release.ErrForbidden // the authorizer says to what; a webhook does not
	case s.Code == http.StatusTooManyRequests, s.Code >= 500, s.Code < 400, s.Code == http.StatusRequestTimeout,
		s.Code == http.StatusGone: // the version that was asked for is too old; another look is not
		return release.ErrUnavailable
	}
	return release.ErrRefused
}

// NotServed reports that the API server does not know the kind at all: it then
// answers for the path, not for the object.
func NotServed(err error) bool {
	return apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// NoNamespace reports that the namespace of what was to be created is not there.
func NoNamespace(err error) bool {
	s, ok := status(err)
	return ok && s.Code == http.StatusNotFound && s.Details != nil && s.Details.Kind == "namespaces"
}

// Ended is the error of a call whose context has ended before it was made, nil
// where it has not.
func Ended(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", release.ErrUnavailable, err)
	}
	return nil
}

// Within gives a call its deadline, within its caller's.
func Within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc, error) {
	if err := Ended(ctx); err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, d)
	return ctx, cancel, nil
}
