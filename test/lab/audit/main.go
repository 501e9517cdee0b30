// Command audit counts API calls in an API server's audit log: those of one
// user agent, in a span of time, per verb and object. So a test can tell what a
// release cost without asking the one who spent it.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "audit:", err)
		os.Exit(1) //nolint:forbidigo // a program ends with a code
	}
}

func run(args []string, out io.Writer) (err error) {
	q := query{until: time.Now()}
	flags := flag.NewFlagSet("audit", flag.ContinueOnError)
	log := flags.String("log", "", "audit log, in JSON lines")
	flags.StringVar(&q.agent, "agent", "", "what the user agent begins with; empty: any")
	flags.StringVar(&q.namespace, "namespace", "", "count only calls to this namespace")
	flags.Func("since", "RFC 3339 time, or how long ago (10m)", moment(&q.since))
	flags.Func("until", "the same; default now", moment(&q.until))
	each := flags.Bool("each", false, "write each call with its time, one JSON object a line, instead of the sums")
	if err := flags.Parse(args); err != nil {
		return err
	}
	f, err := os.Open(*log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	calls, err := q.read(f)
	if err != nil {
		return err
	}
	enc := json.NewEncoder(out)
	if *each {
		for _, c := range calls {
			if err := enc.Encode(c); err != nil {
				return err
			}
		}
		return nil
	}
	enc.SetIndent("", "  ")
	return enc.Encode(sum(calls))
}

func moment(t *time.Time) func(string) error {
	return func(s string) (err error) {
		if ago, bad := time.ParseDuration(s); bad == nil {
			*t = time.Now().Add(-ago)
			return nil
		}
		*t, err = time.Parse(time.RFC3339Nano, s)
		return err
	}
}

// query says which calls count.
type query struct {
	agent, namespace string
	since, until     time.Time
}

// call is one call: what it did, to what, and how it was answered.
type call struct {
	Time time.Time `json:"time"`
	kind
	Agent string `json:"agent"`
}

// kind is what calls are counted by. Resource has its subresource behind a
// slash; it is the path where the call was to no object.
type kind struct {
	Verb      string `json:"verb"`
	Group     string `json:"group,omitempty"`
	Resource  string `json:"resource"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	Code      int    `json:"code"`
}

// event is a line of the log, as far as it matters here.
type event struct {
	AuditID   string    `json:"auditID"`
	UserAgent string    `json:"userAgent"`
	Verb      string    `json:"verb"`
	URI       string    `json:"requestURI"`
	Received  time.Time `json:"requestReceivedTimestamp"`
	Object    struct {
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
		Group       string `json:"apiGroup"`
	} `json:"objectRef"`
	Response struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
}

// read returns the calls in the order they came. A call has one line, but a
// watch has another when it ends.
func (q query) read(r io.Reader) ([]call, error) {
	var calls []call
	seen := map[string]bool{}
	lines := bufio.NewReaderSize(r, 1<<20)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			slices.SortStableFunc(calls, func(a, b call) int { return a.Time.Compare(b.Time) })
			return calls, nil // a line without an end is still being written
		}
		if err != nil {
			return nil, err
		}
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("not an audit log: %w", err)
		}
		if !seen[e.AuditID] && q.wants(e) {
			seen[e.AuditID] = true
			calls = append(calls, e.call())
		}
	}
}

func (q query) wants(e event) bool {
	return strings.HasPrefix(e.UserAgent, q.agent) &&
		(q.namespace == "" || e.Object.Namespace == q.namespace) &&
		!e.Received.Before(q.since) && !e.Received.After(q.until)
}

func (e event) call() call {
	o := e.Object
	resource := o.Resource
	if o.Subresource != "" {
		resource += "/" + o.Subresource
	}
	if resource == "" {
		resource, _, _ = strings.Cut(e.URI, "?")
	}
	return call{
		Time:  e.Received,
		Agent: e.UserAgent,
		kind:  kind{Verb: e.Verb, Group: o.Group, Resource: resource, Namespace: o.Namespace, Name: o.Name, Code: e.Response.Code},
	}
}

// sums is the answer: how many calls, how many of them writes, and of which
// kinds.
type sums struct {
	Calls  int     `json:"calls"`
	Writes int     `json:"writes"`
	By     []count `json:"by"`
}

type count struct {
	kind
	Count int `json:"count"`
}

func sum(calls []call) sums {
	s := sums{Calls: len(calls), By: []count{}}
	by := map[kind]int{}
	for _, c := range calls {
		by[c.kind]++
		switch c.Verb {
		case "create", "update", "patch", "delete", "deletecollection":
			s.Writes++
		}
	}
	for _, k := range slices.SortedFunc(maps.Keys(by), kind.compare) {
		s.By = append(s.By, count{k, by[k]})
	}
	return s
}

func (k kind) compare(other kind) int {
	return cmp.Or(
		cmp.Compare(k.Verb, other.Verb), cmp.Compare(k.Group, other.Group), cmp.Compare(k.Resource, other.Resource),
		cmp.Compare(k.Namespace, other.Namespace), cmp.Compare(k.Name, other.Name), cmp.Compare(k.Code, other.Code),
	)
}
