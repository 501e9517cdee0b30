package api_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/shifter-dev/shifter/internal/api"
)

const sound = `{
  "name": "checkout-4711",
  "routes": [{"kind": "HTTPRoute", "name": "checkout", "rules": ["main"]}],
  "primary": {"service": "checkout", "port": 8080, "deployment": "checkout"},
  "canary": {"service": "checkout-canary", "port": 8080, "deployment": "checkout-canary", "endReplicas": 1},
  "steps": [10, 50, 100],
  "size": {"headroom": 1.5},
  "gates": {"maxErrorRateDelta": 0.01, "equalHarm": false, "soak": "15s"},
  "deadlines": {"drain": "90s"}
}`

func TestStrictTakesASoundRequest(t *testing.T) {
	var q api.CreateRequest
	if found := api.Strict([]byte(sound), &q); len(found) > 0 {
		t.Fatal(found)
	}
	var std api.CreateRequest
	if err := json.Unmarshal([]byte(sound), &std); err != nil {
		t.Fatal(err)
	}
	got, _ := json.Marshal(q)
	want, _ := json.Marshal(std)
	if string(got) != string(want) {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestStrictNamesWhatDoesNotFit(t *testing.T) {
	many := func(n int, item string) string {
		return "[" + strings.TrimSuffix(strings.Repeat(item+",", n), ",") + "]"
	}
	for _, c := range []struct{ name, body, pointer, code, fix string }{
		{"empty", "  ", "", "bodyMissing", ""},
		{"no json", "name: x", "", "syntax", ""},
		{"cut", `{"name": "x"`, "", "syntax", ""},
		{"cut in a string", `{"name": "x`, "", "syntax", ""},
		{"no comma", `{"name": "x" "preset": "dev"}`, "", "syntax", ""},
		{"trailing comma", `{"steps": [1,]}`, "", "syntax", ""},
		{"wrong bracket", `{"steps": [1}`, "", "syntax", ""},
		{"not utf-8", "{\"name\": \"\xff\"}", "", "syntax", ""},
		{"two values", `{} {}`, "", "trailingData", ""},
		{"garbage after", `{} x`, "", "trailingData", ""},
		{"a list", `[]`, "", "wrongType", ""},
		{"null", `null`, "", "null", ""},
		{"unknown", `{"colour": 1}`, "/colour", "unknownField", "known here: name, routes"},
		{"misspelt", `{"gates": {"maxErorRateDelta": 0.1}}`, "/gates/maxErorRateDelta", "unknownField", `did you mean "maxErrorRateDelta"?`},
		{"wrong case", `{"Name": "x"}`, "/Name", "unknownField", `write "name"`},
		{"unknown deep", `{"routes": [{}, {"kidn": "x"}]}`, "/routes/1/kidn", "unknownField", `did you mean "kind"?`},
		{"odd key", `{"a/b~c": 1}`, "/a~1b~0c", "unknownField", ""},
		{"twice", `{"name": "a", "name": "b"}`, "/name", "duplicate", ""},
		{"twice, deep", `{"canary": {"port": 1, "port": 2}}`, "/canary/port", "duplicate", ""},
		{"number for text", `{"name": 1}`, "/name", "wrongType", "use a string"},
		{"text for number", `{"size": {"headroom": "1.2"}}`, "/size/headroom", "wrongType", "use a number"},
		{"text for flag", `{"gates": {"equalHarm": "no"}}`, "/gates/equalHarm", "wrongType", "use true or false"},
		{"part of a pod", `{"size": {"minReplicas": 1.5}}`, "/size/minReplicas", "wrongType", "use a whole number"},
		{"huge whole number", `{"canary": {"endReplicas": 99999999999}}`, "/canary/endReplicas", "wrongType", ""},
		{"huge number", `{"size": {"headroom": 1e999}}`, "/size/headroom", "wrongType", ""},
		{"object for list", `{"steps": {}}`, "/steps", "wrongType", "use a list"},
		{"list for object", `{"primary": []}`, "/primary", "wrongType", "use an object"},
		{"text in steps", `{"steps": [10, "25"]}`, "/steps/1", "wrongType", "use a number"},
		{"null field", `{"gates": null}`, "/gates", "null", "leave the field out"},
		{"null item", `{"steps": [null]}`, "/steps/0", "null", ""},
		{"too many routes", `{"routes": ` + many(5, "{}") + `}`, "/routes", "tooMany", "use 4 or fewer"},
		{"too many steps", `{"steps": ` + many(9000, "1") + `}`, "/steps", "tooMany", "use 20 or fewer"},
		{"too long", `{"name": "` + strings.Repeat("x", 64) + `"}`, "/name", "tooLong", "use 63 characters or fewer"},
		{"too long in a list", `{"routes": [{"rules": ["` + strings.Repeat("x", 254) + `"]}]}`, "/routes/0/rules/0", "tooLong", ""},
		{"too deep", strings.Repeat(`{"a":`, 20) + "1" + strings.Repeat("}", 20), "", "tooDeep", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var q api.CreateRequest
			found := api.Strict([]byte(c.body), &q)
			if len(found) == 0 {
				t.Fatal("nothing is wrong with it")
			}
			f := found[0]
			if f.Pointer != c.pointer || f.Code != c.code || !strings.Contains(f.Fix, c.fix) {
				t.Errorf("got %+v, want %s %s with %q", f, c.pointer, c.code, c.fix)
			}
			if f.Message == "" || f.Fix == "" {
				t.Errorf("no message or no way out: %+v", f)
			}
		})
	}
}

func TestStrictNamesEverythingUpToALimit(t *testing.T) {
	var q api.CreateRequest
	found := api.Strict([]byte(`{"nam": 1, "steps": "x", "canary": {"Port": 1}}`), &q)
	if len(found) != 3 {
		t.Errorf("got %v", found)
	}
	var b strings.Builder
	for i := range 500 {
		fmt.Fprintf(&b, `%q: 1,`, fmt.Sprintf("field%d", i))
	}
	if found := api.Strict([]byte("{"+strings.TrimSuffix(b.String(), ",")+"}"), &q); len(found) != 20 {
		t.Errorf("%d findings for a hostile body", len(found))
	}
}

// FuzzStrict: what Strict takes, encoding/json reads in the same way; nothing
// makes either of them panic.
func FuzzStrict(f *testing.F) {
	for _, s := range []string{sound, `{}`, `{"name":"a","name":"b"}`, `{"steps":[1,2`, `{"Name":1}`, "\xff", `[[[[`, `{"a":{"b":1}} x`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var q api.CreateRequest
		if len(api.Strict(body, &q)) > 0 {
			return
		}
		q.Spec("shop")
		var std api.CreateRequest
		d := json.NewDecoder(strings.NewReader(string(body)))
		d.DisallowUnknownFields()
		if err := d.Decode(&std); err != nil {
			t.Fatalf("encoding/json does not take %q: %v", body, err)
		}
		got, _ := json.Marshal(q)
		want, _ := json.Marshal(std)
		if string(got) != string(want) {
			t.Fatalf("%q is read as %s and by encoding/json as %s", body, got, want)
		}
	})
}
