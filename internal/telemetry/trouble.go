package telemetry

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"syscall"

	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
)

// Class is the kind of trouble with a source. It is the first word of a
// reading's Trouble.
type Class string

// The classes.
const (
	BadQuery    Class = "badQuery"    // refused, or cannot be evaluated: asking again does not help
	Auth        Class = "auth"        // credentials or certificates are not accepted
	Timeout     Class = "timeout"     // no answer in time
	Unavailable Class = "unavailable" // no answer, or one that says so
	Partial     Class = "partial"     // an answer with warnings
	Stale       Class = "stale"       // samples that are too old; of a note, since they are still true
	Empty       Class = "empty"       // an answer without the series
	Odd         Class = "odd"         // an answer that is not what was asked for
)

// ClassOf reads the class that a trouble or a note begins with.
func ClassOf(text string) (Class, bool) {
	word, _, ok := strings.Cut(text, ": ")
	switch c := Class(word); c {
	case BadQuery, Auth, Timeout, Unavailable, Partial, Stale, Empty, Odd:
		return c, ok
	}
	return "", false
}

// trouble is what a source did wrong, in our own words.
type trouble struct {
	class Class
	text  string
}

func (t trouble) is() bool { return t.class != "" }

// of says what the trouble is with.
func (t trouble) of(what string) trouble { return trouble{t.class, what + ": " + t.text} }

// about writes the trouble for a reading.
func (t trouble) about(source string) string {
	return fmt.Sprintf("%s: metrics source %q: %s", t.class, source, t.text)
}

// inWords says what went wrong in our own words: errors of the API client may
// quote the answer.
func (s *source) inWords(err error) trouble {
	var status statusError
	var said *v1.Error
	var op *net.OpError
	var cert *tls.CertificateVerificationError
	var access accessError
	switch {
	case errors.Is(err, errTooLarge):
		return trouble{Odd, fmt.Sprintf("the answer is larger than %d bytes", s.MaxBytes)}
	case errors.Is(err, context.DeadlineExceeded):
		return trouble{Timeout, fmt.Sprintf("no answer within %s", s.Timeout)}
	case errors.Is(err, context.Canceled):
		return trouble{Unavailable, "the look was ended"}
	case errors.As(err, &access):
		return trouble{Auth, access.Error()}
	case errors.As(err, &status):
		return trouble{status.class(), status.Error()}
	case errors.As(err, &said):
		return saidInWords(said)
	case errors.As(err, &cert):
		return trouble{Auth, "no answer: " + cert.Error()}
	case errors.As(err, &op):
		if op.Op == "remote error" { // it refused our certificate
			return trouble{Auth, "no answer: " + op.Error()}
		}
		return trouble{Unavailable, "no answer: " + op.Error()}
	}
	return trouble{Unavailable, "no answer, or it broke off"}
}

func saidInWords(e *v1.Error) trouble {
	switch e.Type {
	case v1.ErrBadData:
		return trouble{BadQuery, "it refused the query as bad data"}
	case v1.ErrTimeout:
		return trouble{Timeout, "it timed out on the query"}
	case v1.ErrCanceled:
		return trouble{Unavailable, "it cancelled the query"}
	case v1.ErrExec:
		return trouble{BadQuery, "it failed to evaluate the query"}
	case v1.ErrBadResponse:
		return trouble{Odd, "the answer is cut off or not one of Prometheus"}
	case v1.ErrServer, v1.ErrClient:
		return trouble{Unavailable, "it answered with an error"}
	}
	return trouble{Unavailable, "it answered with an error of an unknown kind"}
}

// class sorts the codes of an answer.
func (e statusError) class() Class {
	switch int(e) {
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		return BadQuery
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired:
		return Auth
	case http.StatusRequestTimeout, http.StatusGatewayTimeout:
		return Timeout
	}
	return Unavailable
}

// passing reports an error that may be gone in a moment: the source is starting
// or busy. What it says of the query or of us is not.
func passing(err error) bool {
	var status statusError
	if errors.As(err, &status) {
		return int(status) == http.StatusServiceUnavailable || int(status) == http.StatusTooManyRequests
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}
