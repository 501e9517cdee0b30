package routing

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shifter-dev/shifter/internal/release"
)

// explain gives an error of the API server its kind. It goes by codes, reasons
// and details, never by words.
func explain(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", errorKind(err), err)
}

func errorKind(err error) error {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return release.ErrUnavailable // no answer at all, or one that nobody sent on purpose
	}
	s := status.Status()
	switch {
	case s.Code == http.StatusNotFound:
		return release.ErrNotFound
	case s.Code == http.StatusConflict:
		return release.ErrConflict
	case s.Code == http.StatusUnauthorized:
		return release.ErrForbidden
	case s.Code == http.StatusForbidden && s.Details != nil:
		return release.ErrForbidden // the authorizer says to what; a webhook does not
	case s.Code == http.StatusUnprocessableEntity && !hasCauses(s):
		return release.ErrConflict // a test of the patch failed
	case s.Code == http.StatusTooManyRequests, s.Code >= 500, s.Code < 400, s.Code == http.StatusRequestTimeout:
		return release.ErrUnavailable
	}
	return release.ErrRefused
}

func hasCauses(s metav1.Status) bool { return s.Details != nil && len(s.Details.Causes) > 0 }

// notServed reports that the API server does not know the kind at all: it then
// answers for the path, not for the object.
func notServed(err error) bool {
	return apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// answered is the part of a call that can fail before it is made.
func answered(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", release.ErrUnavailable, err)
	}
	return nil
}
