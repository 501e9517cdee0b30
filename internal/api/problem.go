package api

import "github.com/shifter-dev/shifter/internal/release"

// Code names a kind of problem; it is stable and ends the problem's type URI.
type Code string

// The kinds of problem.
const (
	CodeInvalid      Code = "invalidRequest"
	CodeNotSound     Code = "notSound"
	CodeExists       Code = "releaseExists"
	CodeBusy         Code = "objectsInUse"
	CodeEnded        Code = "alreadyEnded"
	CodeConflict     Code = "conflict"
	CodeNotFound     Code = "notFound"
	CodeNoRelease    Code = "releaseNotFound"
	CodeMethod       Code = "methodNotAllowed"
	CodeNotJSON      Code = "unsupportedMediaType"
	CodeTooLarge     Code = "bodyTooLarge"
	CodeTooSlow      Code = "bodyTooSlow"
	CodeHost         Code = "hostRefused"
	CodeCrossOrigin  Code = "crossOrigin"
	CodeUnauthorized Code = "unauthorized"
	CodeForbidden    Code = "forbidden"
	CodeUnavailable  Code = "unavailable"
	CodeNotReady     Code = "notReady"
	CodeInternal     Code = "internal"
)

// TypePrefix begins every problem's type; the code follows.
const TypePrefix = "urn:shifter:problem:"

// Problem is an error answer (RFC 9457).
type Problem struct {
	Type     string `json:"type" doc:"Stable URI of the kind" example:"urn:shifter:problem:invalidRequest"`
	Title    string `json:"title" doc:"The kind in words"`
	Status   int    `json:"status" doc:"The HTTP status" example:"422"`
	Detail   string `json:"detail" doc:"What happened and what to do"`
	Instance string `json:"instance,omitempty" doc:"Path of the request"`
	Code     Code   `json:"code" doc:"The kind in one word" example:"invalidRequest"`
	// Retryable is true when the same request may work later.
	Retryable     bool      `json:"retryable" doc:"Whether the same request may work later"`
	RetryAfter    int       `json:"retryAfter,omitempty" doc:"Seconds to wait before that"`
	Errors        []Finding `json:"errors,omitempty" doc:"Every single thing that is wrong" nullable:"false"`
	ActiveRelease string    `json:"activeRelease,omitempty" doc:"Link to the release in the way"`
	Recipe        []string  `json:"recipe,omitempty" doc:"What to do instead" nullable:"false"`
}

// Finding is one thing that is wrong with a request or its world.
type Finding struct {
	Pointer   string `json:"pointer,omitempty" doc:"JSON pointer into the request; absent when it is the world, or the whole body" example:"/steps/2"`
	Parameter string `json:"parameter,omitempty" doc:"Name of the query or path parameter" example:"wait"`
	Code      string `json:"code" doc:"The kind in one word" example:"unknownField"`
	Message   string `json:"message" doc:"What is wrong"`
	Fix       string `json:"fix,omitempty" doc:"What to do"`
}

type kind struct {
	status    int
	title     string
	retryable bool
}

func kinds() map[Code]kind {
	return map[Code]kind{
		CodeInvalid:      {422, "The request is not valid", false},
		CodeNotSound:     {422, "The release would not be sound", false},
		CodeExists:       {409, "The name is taken", false},
		CodeBusy:         {409, "Another release is using the same objects", true},
		CodeEnded:        {409, "The release has ended", false},
		CodeConflict:     {409, "Something changed in between", true},
		CodeNotFound:     {404, "There is nothing here", false},
		CodeNoRelease:    {404, "There is no such release", false},
		CodeMethod:       {405, "The method is not allowed here", false},
		CodeNotJSON:      {415, "The body is not declared as JSON", false},
		CodeTooLarge:     {413, "The body is too large", false},
		CodeTooSlow:      {408, "The body came too slowly", true},
		CodeHost:         {421, "The host name is not served here", false},
		CodeCrossOrigin:  {403, "The request comes from another site", false},
		CodeUnauthorized: {401, "The caller is not known", false},
		CodeForbidden:    {403, "It is not allowed", false},
		CodeUnavailable:  {503, "The cluster does not answer", true},
		CodeNotReady:     {503, "Not ready", true},
		CodeInternal:     {500, "A fault of shifter's own", true},
	}
}

// Codes lists every kind of problem.
func Codes() []Code {
	out := make([]Code, 0, len(kinds()))
	for c := range kinds() {
		out = append(out, c)
	}
	return out
}

// NewProblem makes a problem of a kind. An unknown kind is internal.
func NewProblem(c Code, detail string) *Problem {
	k, ok := kinds()[c]
	if !ok {
		c, k = CodeInternal, kinds()[CodeInternal]
	}
	return &Problem{
		Type: TypePrefix + string(c), Title: k.title, Status: k.status,
		Detail: detail, Code: c, Retryable: k.retryable,
	}
}

// Error makes a problem an error.
func (p *Problem) Error() string { return string(p.Code) + ": " + p.Detail }

// GetStatus is the HTTP status.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType is the media type of a problem.
func (p *Problem) ContentType(string) string { return "application/problem+json" }

// Findings turns the brain's findings into the wire's.
func Findings(in []release.Finding) []Finding {
	out := make([]Finding, 0, len(in))
	for _, f := range in {
		out = append(out, Finding{Pointer: f.Pointer, Code: f.Code, Message: f.Message, Fix: f.Fix})
	}
	return out
}
