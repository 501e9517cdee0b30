package telemetry_test

import (
	"strings"
	"testing"

	"github.com/shifter-dev/shifter/internal/telemetry"
)

func TestACustomProviderIsChecked(t *testing.T) {
	const good = `requests_total{ns="{{namespace}}",app="{{service}}",code!~"5.."}`
	for name, c := range map[string]struct{ total, good, want string }{
		"two selectors":            {`requests_total{ns="{{namespace}}",app="{{service}}"}`, good, ""},
		"a hole within a value":    {`requests_total{cluster="out|{{port}}|{{subset}}|{{service}}"}`, good, ""},
		"no total":                 {"", good, "total: it is empty"},
		"no good":                  {good, "", "good: it is empty"},
		"one twice":                {good, good, "nothing would ever fail"},
		"a rate":                   {`rate(requests_total{app="{{service}}"}[1m])`, good, "nothing more"},
		"a range":                  {`requests_total{app="{{service}}"}[1m]`, good, "nothing more"},
		"a sum":                    {`sum(requests_total{app="{{service}}"})`, good, "nothing more"},
		"an offset":                {`requests_total{app="{{service}}"} offset 5m`, good, "must not move the time"},
		"a time":                   {`requests_total{app="{{service}}"} @ end()`, good, "must not move the time"},
		"no metric":                {`{app="{{service}}"}`, good, "names no metric"},
		"several metrics":          {`{__name__=~"a|b",app="{{service}}"}`, good, "names no metric"},
		"one for both tracks":      {`requests_total{ns="{{namespace}}"}`, good, "both tracks are the same"},
		"a hole as metric":         {`{{service}}_total{app="x"}`, good, "no selector"},
		"a hole that is not known": {`requests_total{app="{{pod}}",s="{{service}}"}`, good, "none of namespace"},
		"not PromQL":               {`requests_total{app="{{service}}"`, good, "no selector"},
	} {
		t.Run(name, func(t *testing.T) {
			err := telemetry.Custom{Total: c.total, Good: c.good}.Check()
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}
