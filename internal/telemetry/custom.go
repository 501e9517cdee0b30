package telemetry

import (
	"errors"
	"fmt"
	"strings"

	"github.com/prometheus/prometheus/promql/parser"
)

// Custom is a provider that an administrator writes: two selectors of counters,
// in which {{namespace}}, {{service}}, {{deployment}}, {{subset}} and {{port}}
// stand for a track's own. It is checked here and not read yet: nothing
// configures it.
type Custom struct {
	Total string // counters of finished requests
	Good  string // those of them that did not fail
}

// holes are what may be filled in, with a value that no selector takes outside
// of quotes. The first ones tell tracks apart.
var holes = []struct {
	name  string
	tells bool
}{{"service", true}, {"deployment", true}, {"subset", true}, {"namespace", false}, {"port", false}}

// Check says what is wrong with the selectors.
func (c Custom) Check() error {
	if err := checkSelector(c.Total); err != nil {
		return fmt.Errorf("total: %w", err)
	}
	if err := checkSelector(c.Good); err != nil {
		return fmt.Errorf("good: %w", err)
	}
	if c.Total == c.Good {
		return errors.New("total and good are the same: nothing would ever fail")
	}
	return nil
}

func checkSelector(text string) error {
	if text == "" {
		return errors.New("it is empty")
	}
	tells := false
	for _, h := range holes {
		hole := "{{" + h.name + "}}"
		tells = tells || h.tells && strings.Contains(text, hole)
		text = strings.ReplaceAll(text, hole, "1-a.b")
	}
	if strings.Contains(text, "{{") {
		return errors.New("it has a hole that is none of namespace, service, deployment, subset, port")
	}
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(text)
	if err != nil {
		return fmt.Errorf("it is no selector: %w", err)
	}
	v, ok := expr.(*parser.VectorSelector)
	switch {
	case !ok:
		return errors.New("it must select counters, such as my_requests_total{app=\"{{service}}\"}, and nothing more")
	case v.OriginalOffset != 0 || v.Timestamp != nil || v.StartOrEnd != 0:
		return errors.New("it must not move the time with offset or @")
	case v.Name == "":
		return errors.New("it names no metric")
	case !tells:
		return errors.New("both tracks are the same to it: use {{service}}, {{deployment}} or {{subset}}")
	}
	return nil
}
