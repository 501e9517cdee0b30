package server

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humaecho"

	"github.com/shifter-dev/shifter/internal/api"
)

// body is a request's body before it is understood. Huma's own reading takes
// any casing of a field, the last of two equal keys and the first of two
// values, so the body goes to api.Strict instead.
type body struct {
	raw []byte
	bad *api.Problem
}

func (b *body) read(ctx huma.Context) {
	c := humaecho.Unwrap(ctx)
	r := c.Request()
	raw, err := io.ReadAll(http.MaxBytesReader(c.Response(), r.Body, maxBody))
	var large *http.MaxBytesError
	var slow net.Error
	switch {
	case err == nil:
	case errors.As(err, &large):
		b.bad = api.NewProblem(api.CodeTooLarge, fmt.Sprintf("The body is larger than %d KiB; nothing was read of it.", maxBody>>10))
		return
	case errors.As(err, &slow) && slow.Timeout():
		b.bad = api.NewProblem(api.CodeTooSlow, "The body did not arrive in time.")
		return
	default:
		b.bad = invalid([]api.Finding{{Code: "bodyCut", Message: "the body ended before its announced length"}})
		return
	}
	if len(raw) > 0 && !isJSON(r.Header.Get("Content-Type")) {
		b.bad = api.NewProblem(api.CodeNotJSON, `Send JSON and say so with the header "Content-Type: application/json".`)
		return
	}
	b.raw = raw
}

// into reads the body into a request type.
func (b *body) into(v any) error {
	if b.bad != nil {
		return b.bad
	}
	if found := api.Strict(b.raw, v); len(found) > 0 {
		return invalid(api.Findings(found))
	}
	return nil
}

func isJSON(contentType string) bool {
	t, _, err := mime.ParseMediaType(contentType)
	return err == nil && (t == jsonType || strings.HasPrefix(t, "application/") && strings.HasSuffix(t, "+json"))
}
