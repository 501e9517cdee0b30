package workload

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/shifter-dev/shifter/internal/release"
)

// explain gives an error of the API server its kind. It goes by codes, reasons
// and details, never by words. (Package routing has its own: the two hands know
// nothing of each other.)
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
	case s.Code == http.StatusUnprocessableEntity && (s.Details == nil || len(s.Details.Causes) == 0):
		return release.ErrConflict // a test of the patch failed
	case s.Code == http.StatusTooManyRequests, s.Code >= 500, s.Code < 400, s.Code == http.StatusRequestTimeout:
		return release.ErrUnavailable
	}
	return release.ErrRefused
}

// bounded gives a call its deadline, within its caller's.
func (w *Workloads) bounded(ctx context.Context) (context.Context, context.CancelFunc, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", release.ErrUnavailable, err)
	}
	ctx, cancel := context.WithTimeout(ctx, w.cfg.Timeout)
	return ctx, cancel, nil
}
