package server

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"

	"github.com/shifter-dev/shifter/internal/api"
	"github.com/shifter-dev/shifter/internal/api/apitest"
)

func TestOpenAPI(t *testing.T) {
	s := newServer(t, newWorld())
	rec := ask(s, "GET", "/openapi.json", "")
	if rec.Code != 200 || !strings.HasPrefix(rec.Body.String(), "{\n  \"components\"") {
		t.Fatalf("%d %.80s", rec.Code, rec.Body)
	}
	golden(t, "openapi.json", rec.Body.Bytes())
}

// What is answered must be what the document says.
func TestAnswersFitTheirSchema(t *testing.T) {
	s := newServer(t, newWorld())
	reg := s.api.OpenAPI().Components.Schemas
	fits := func(name string, v any) {
		t.Helper()
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		var tree any
		if err := json.Unmarshal(b, &tree); err != nil {
			t.Fatal(err)
		}
		res := &huma.ValidateResult{}
		schema := reg.Schema(reflect.TypeOf(v), true, "")
		huma.Validate(reg, schema, huma.NewPathBuffer([]byte(""), 0), huma.ModeReadFromServer, tree, res)
		for _, e := range res.Errors {
			t.Errorf("%s: %v", name, e)
		}
	}
	for _, n := range apitest.Names() {
		v := apitest.View(n, apitest.Now())
		r := api.FromView(v, "")
		fits(n, r)
		fits(n+" verdict", r.Verdict())
		fits(n+" record", api.FromView(api.RecordView(v.Release), ""))
	}
	p := api.NewProblem(api.CodeInvalid, "detail")
	p.Errors = []api.Finding{{Pointer: "/a", Code: "b", Message: "c"}}
	fits("problem", *p)
}
