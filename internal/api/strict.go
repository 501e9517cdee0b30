package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/shifter-dev/shifter/internal/release"
)

const (
	maxDepth    = 16
	maxFindings = 20
)

// Strict reads one JSON value into into, a pointer to a request type, and names
// everything that does not fit: unknown and repeated fields, wrong types, null,
// more items or characters than the field's maxItems and maxLength tags allow,
// and anything after the value. Field names match exactly. With findings, into
// is not to be used.
//
// It exists because encoding/json takes the last of two equal keys, any casing
// of a name, and the first of two values.
func Strict(body []byte, into any) []release.Finding {
	if len(bytes.TrimSpace(body)) == 0 {
		return []release.Finding{{Code: "bodyMissing", Message: "the request has no body", Fix: "send a JSON object"}}
	}
	if !utf8.Valid(body) {
		return []release.Finding{{Code: "syntax", Message: "the body is not UTF-8", Fix: "send JSON in UTF-8"}}
	}
	s := &strict{dec: json.NewDecoder(bytes.NewReader(body))}
	s.dec.UseNumber()
	tree, err := s.value("", 0)
	if err == nil {
		err = s.end()
	}
	if err != nil {
		return append(s.found, syntaxFinding(err))
	}
	s.bind(tree, reflect.ValueOf(into).Elem(), reflect.StructField{}, "")
	return s.found
}

// strict is one reading. It builds the tree first and binds it afterwards, so
// that the findings of a sound text are all of its findings.
type strict struct {
	dec   *json.Decoder
	found []release.Finding
}

// node is a JSON value: a []member, a []node, a string, a json.Number, a bool
// or nil.
type node any

type member struct {
	key string
	val node
}

type syntaxError struct {
	code    string
	pointer string
	text    string
	fix     string
}

func (e *syntaxError) Error() string { return e.text }

func syntaxFinding(err error) release.Finding {
	var own *syntaxError
	if errors.As(err, &own) {
		return release.Finding{Pointer: own.pointer, Code: own.code, Message: own.text, Fix: own.fix}
	}
	msg := "the body is not JSON: it ends too early"
	var syn *json.SyntaxError
	if errors.As(err, &syn) && !strings.HasPrefix(syn.Error(), "unexpected end") {
		msg = fmt.Sprintf("the body is not JSON: %s at byte %d", syn.Error(), syn.Offset)
	}
	return release.Finding{Code: "syntax", Message: msg, Fix: "send one JSON object"}
}

func (s *strict) add(pointer, code, fix, format string, args ...any) {
	if len(s.found) < maxFindings {
		s.found = append(s.found, release.Finding{Pointer: pointer, Code: code, Message: fmt.Sprintf(format, args...), Fix: fix})
	}
}

func (s *strict) end() error {
	if _, err := s.dec.Token(); !errors.Is(err, io.EOF) {
		return &syntaxError{code: "trailingData", text: "something follows the JSON value", fix: "send one JSON object and nothing after it"}
	}
	return nil
}

func (s *strict) value(at string, depth int) (node, error) {
	if depth > maxDepth {
		return nil, &syntaxError{code: "tooDeep", text: fmt.Sprintf("the body is nested deeper than %d levels", maxDepth), fix: "no field of a request is that deep"}
	}
	t, err := s.dec.Token()
	if err != nil {
		return nil, err
	}
	switch t {
	case json.Delim('{'):
		return s.object(at, depth)
	case json.Delim('['):
		return s.array(at, depth)
	}
	return t, nil
}

func (s *strict) object(at string, depth int) (node, error) {
	out := []member{}
	seen := map[string]bool{}
	for s.dec.More() {
		t, err := s.dec.Token()
		if err != nil {
			return nil, err
		}
		key, _ := t.(string) // the decoder allows nothing else here
		p := at + "/" + pointerEscape(key)
		v, err := s.value(p, depth+1)
		if err != nil {
			return nil, err
		}
		if seen[key] {
			s.add(p, "duplicate", "write it once", "field %q is written twice", short(key))
			continue
		}
		seen[key] = true
		out = append(out, member{key, v})
	}
	_, err := s.dec.Token()
	return out, err
}

func (s *strict) array(at string, depth int) (node, error) {
	out := []node{}
	for s.dec.More() {
		v, err := s.value(at+"/"+strconv.Itoa(len(out)), depth+1)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	_, err := s.dec.Token()
	return out, err
}

// bind puts a node into a value; f is the field that holds it, for its limits.
func (s *strict) bind(n node, v reflect.Value, f reflect.StructField, at string) {
	if n == nil {
		s.add(at, "null", "leave the field out to take its default", "null is not a value here")
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		s.bind(n, v.Elem(), f, at)
	case reflect.Struct:
		s.bindStruct(n, v, at)
	case reflect.Slice:
		s.bindSlice(n, v, f, at)
	case reflect.String:
		s.bindString(n, v, f, at)
	case reflect.Bool:
		b, ok := n.(bool)
		if !ok {
			s.wrongType(at, "true or false", n)
			return
		}
		v.SetBool(b)
	case reflect.Int, reflect.Int32:
		s.bindInt(n, v, at)
	case reflect.Float64:
		s.bindFloat(n, v, at)
	default:
		panic("api: no strict reading of " + v.Type().String())
	}
}

func (s *strict) bindStruct(n node, v reflect.Value, at string) {
	members, ok := n.([]member)
	if !ok {
		s.wrongType(at, "an object", n)
		return
	}
	for _, m := range members {
		p := at + "/" + pointerEscape(m.key)
		f, ok := fieldNamed(v.Type(), m.key)
		if !ok {
			s.add(p, "unknownField", suggest(v.Type(), m.key), "field %q is not known", short(m.key))
			continue
		}
		s.bind(m.val, v.FieldByIndex(f.Index), f, p)
	}
}

func (s *strict) bindSlice(n node, v reflect.Value, f reflect.StructField, at string) {
	items, ok := n.([]node)
	if !ok {
		s.wrongType(at, "a list", n)
		return
	}
	if limit, ok := tagLimit(f, "maxItems"); ok && len(items) > limit {
		s.add(at, "tooMany", fmt.Sprintf("use %d or fewer", limit), "the list has %d items", len(items))
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(items), len(items)))
	for i, it := range items {
		s.bind(it, v.Index(i), f, at+"/"+strconv.Itoa(i))
	}
}

func (s *strict) bindString(n node, v reflect.Value, f reflect.StructField, at string) {
	t, ok := n.(string)
	if !ok {
		s.wrongType(at, "a string", n)
		return
	}
	if limit, ok := tagLimit(f, "maxLength"); ok && utf8.RuneCountInString(t) > limit {
		s.add(at, "tooLong", fmt.Sprintf("use %d characters or fewer", limit), "the text has %d characters", utf8.RuneCountInString(t))
		return
	}
	v.SetString(t)
}

func (s *strict) bindInt(n node, v reflect.Value, at string) {
	num, ok := n.(json.Number)
	if !ok {
		s.wrongType(at, "a whole number", n)
		return
	}
	i, err := strconv.ParseInt(num.String(), 10, 32)
	if err != nil {
		s.add(at, "wrongType", "use a whole number", "%s is not a whole number in range", short(num.String()))
		return
	}
	v.SetInt(i)
}

func (s *strict) bindFloat(n node, v reflect.Value, at string) {
	num, ok := n.(json.Number)
	if !ok {
		s.wrongType(at, "a number", n)
		return
	}
	f, err := num.Float64()
	if err != nil {
		s.add(at, "wrongType", "use a number in range", "%s is too large", short(num.String()))
		return
	}
	v.SetFloat(f)
}

func (s *strict) wrongType(at, want string, got node) {
	s.add(at, "wrongType", "use "+want, "%s is wanted and %s is there", want, kindOf(got))
}

func kindOf(n node) string {
	switch v := n.(type) {
	case []member:
		return "an object"
	case []node:
		return "a list"
	case string:
		return fmt.Sprintf("the string %q", short(v))
	case json.Number:
		return "the number " + short(v.String())
	case bool:
		return strconv.FormatBool(v)
	}
	return "null"
}

func fieldNamed(t reflect.Type, name string) (reflect.StructField, bool) {
	for i := range t.NumField() {
		if f := t.Field(i); jsonName(f) == name {
			return f, true
		}
	}
	return reflect.StructField{}, false
}

func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

func tagLimit(f reflect.StructField, tag string) (int, bool) {
	n, err := strconv.Atoi(f.Tag.Get(tag))
	return n, err == nil
}

// suggest names the nearest field, or all of them.
func suggest(t reflect.Type, name string) string {
	var all []string
	best, near := "", 3
	for i := range t.NumField() {
		known := jsonName(t.Field(i))
		all = append(all, known)
		if strings.EqualFold(known, name) {
			return fmt.Sprintf("write %q", known)
		}
		if d := distance(known, name); d < near {
			best, near = known, d
		}
	}
	if best != "" {
		return fmt.Sprintf("did you mean %q?", best)
	}
	return "known here: " + strings.Join(all, ", ")
}

// distance is Levenshtein's, for names of a sane length.
func distance(a, b string) int {
	if len(a) > 40 || len(b) > 40 {
		return 99
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diag := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diag, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diag+cost)
		}
	}
	return row[len(b)]
}

func pointerEscape(key string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(short(key))
}

// short keeps what a client sent from filling the answer.
func short(s string) string {
	const limit = 60
	if utf8.RuneCountInString(s) <= limit {
		return s
	}
	return string([]rune(s)[:limit]) + "…"
}
