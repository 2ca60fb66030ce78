package api_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/sandbox"
)

var update = flag.Bool("update", false, "write openapi.json")

// openapi.json is what this test makes of the operations, of the types and of their doc comments.
func TestOpenAPI(t *testing.T) {
	var got bytes.Buffer
	out := json.NewEncoder(&got)
	out.SetEscapeHTML(false)
	out.SetIndent("", " ")
	if err := out.Encode(document(t)); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("openapi.json", got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(got.Bytes(), api.OpenAPI) {
		t.Error("openapi.json is stale: go test ./api -run TestOpenAPI -update")
	}
}

type object = map[string]any

func document(t *testing.T) object {
	source := readSource(t, ".", "../sandbox")
	components, types := object{}, map[string]reflect.Type{}
	requests, answers := &schemas{source, components, types, true}, &schemas{source, components, types, false}
	for _, event := range []any{api.Started{}, api.Progress{}, api.OutputPiece{}, api.ResultEvent{},
		api.ExceptionEvent{}, api.CallEvent{}, api.AnsweredEvent{}, api.Done{},
		api.ProblemEvent{}, api.NetworkAttempt{}} {
		answers.of(reflect.TypeOf(event))
	}
	paths, problems := object{}, object{}
	for _, o := range api.Operations {
		path := strings.Replace(o.Path, "...}", "}", 1)
		item, ok := paths[path].(object)
		if !ok {
			item = object{}
			paths[path] = item
		}
		if o.Method != "" {
			item[strings.ToLower(o.Method)] = operation(o, requests, answers, problems)
			continue
		}
		for _, method := range []string{"Get", "Head", "Post", "Put", "Patch", "Delete", "Options"} {
			one := o
			one.Name += method
			if strings.HasPrefix(method, "P") {
				one.Body = api.MediaBytes
			}
			item[strings.ToLower(method)] = operation(one, requests, answers, problems)
		}
	}
	return object{
		"openapi": "3.1.0",
		"info": object{"title": "Fumehood", "version": "unknown",
			"description": "Runs untrusted code in sandboxes, and returns its output, its files and its resource usage.",
			"license":     object{"name": "Apache-2.0", "identifier": "Apache-2.0"}},
		"servers":  []any{object{"url": "/"}},
		"security": []any{object{}, object{"bearer": []any{}}, object{"key": []any{}}},
		"paths":    paths,
		"components": object{"schemas": components, "responses": problems, "securitySchemes": object{
			"bearer": object{"type": "http", "scheme": "bearer"},
			"key":    object{"type": "apiKey", "in": "header", "name": "X-API-Key"},
		}},
	}
}

func operation(o api.Operation, requests, answers *schemas, problems object) object {
	op := object{"operationId": o.Name, "summary": o.Summary, "responses": responses(o, answers, problems)}
	if o.Detail != "" {
		op["description"] = unwrapped(o.Detail)
	}
	if list := parameters(o); len(list) > 0 {
		op["parameters"] = list
	}
	switch {
	case o.Body == api.MediaBytes:
		op["requestBody"] = object{"required": false, "content": object{api.MediaBytes: object{}}}
	case o.Body != nil:
		op["requestBody"] = object{"required": !o.Optional, "content": object{api.MediaJSON: object{
			"schema": requests.of(reflect.TypeOf(o.Body)), "example": json.RawMessage(o.Example)}}}
	}
	if o.Open {
		op["security"] = []any{}
	}
	return op
}

func responses(o api.Operation, answers *schemas, problems object) object {
	all := object{}
	for _, success := range append([]api.Answers{{Status: cmp.Or(o.Status, http.StatusOK), Answer: o.Answer}}, o.Also...) {
		code := strconv.Itoa(success.Status)
		response, ok := all[code].(object)
		if !ok {
			response = object{"description": "Success."}
			all[code] = response
		}
		media, schema := api.MediaJSON, object{}
		switch answer := success.Answer.(type) {
		case nil:
			continue
		case string:
			media = answer
			switch {
			case media == api.MediaJSON:
				schema = object{"type": "object"}
			case strings.HasPrefix(media, "text/") && media != api.MediaEvents:
				schema = object{"type": "string"}
			}
		default:
			schema = answers.of(reflect.TypeOf(answer))
		}
		content, ok := response["content"].(object)
		if !ok {
			content = object{}
			response["content"] = content
		}
		switch earlier := content[media].(type) {
		case object:
			content[media] = object{"schema": object{"anyOf": []any{earlier["schema"], schema}}}
		default:
			content[media] = object{"schema": schema}
			if len(schema) == 0 {
				content[media] = object{}
			}
		}
	}
	if o.Method == "" {
		all = object{"default": object{"description": "The program's answer, with the header " + api.HeaderPort + "."}}
	}
	statuses := append([]int{http.StatusForbidden, http.StatusMisdirectedRequest}, o.Problems...)
	if !o.Open {
		statuses = append(statuses, http.StatusUnauthorized)
	}
	for _, status := range statuses {
		code := strconv.Itoa(status)
		problems[code] = object{"description": http.StatusText(status),
			"content": object{api.MediaProblem: object{"schema": answers.of(reflect.TypeFor[api.Problem]())}}}
		all[code] = object{"$ref": "#/components/responses/" + code}
	}
	return all
}

func parameters(o api.Operation) (list []any) {
	for part := range strings.SplitSeq(o.Path, "/") {
		if name, ok := strings.CutPrefix(part, "{"); ok {
			list = append(list, object{"name": strings.TrimRight(name, ".}"), "in": "path", "required": true,
				"schema": object{"type": "string", "minLength": 1}})
		}
	}
	for _, p := range o.Params {
		schema, in := object{"type": "string"}, "query"
		if p.Number {
			schema = object{"type": "integer", "minimum": 0}
		}
		if p.Enum != nil {
			schema["enum"] = p.Enum
		}
		if p.List {
			schema = object{"type": "array", "items": schema}
		}
		if p.Header {
			in = "header"
		}
		param := object{"name": p.Name, "in": in, "description": p.Doc, "schema": schema}
		if p.Example != "" && !p.List {
			param["example"] = p.Example
		}
		list = append(list, param)
	}
	return list
}

// schemas converts Go types to JSON Schema 2020-12. Structs become components. It reads the tags that the server's
// decoder enforces (json, required, max), and those of other checks: one: exactly one field of this group; number: text
// or a number; over: more than this; least: this or more; whole: a whole number; pattern; enum; example.
type schemas struct {
	source     source
	components object
	types      map[string]reflect.Type // by the name of their component
	request    bool                    // optional fields may be null, and unknown fields are refused, as in the decoder
}

func (s *schemas) of(t reflect.Type) object {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}
	case t == reflect.TypeFor[json.RawMessage](): // any JSON
		return object{}
	case t == reflect.TypeFor[sandbox.Kind]():
		var names []any
		for kind := sandbox.Internal; kind <= sandbox.TooLarge; kind++ {
			names = append(names, kind.String())
		}
		return object{"type": "string", "enum": names}
	case t == reflect.TypeFor[sandbox.HintCode]():
		return object{"type": "string", "enum": slices.Sorted(maps.Keys(sandbox.Hints))}
	case t.Kind() == reflect.Pointer:
		return nullable(s.of(t.Elem()))
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		return object{"type": "string", "contentEncoding": "base64"}
	case t.Kind() == reflect.Slice:
		return object{"type": "array", "items": s.of(t.Elem())}
	case t.Kind() == reflect.Map:
		return object{"type": "object", "additionalProperties": s.of(t.Elem())}
	case t.Kind() == reflect.Struct:
		return s.component(t)
	case t.Kind() == reflect.Interface: // the facts of a hint
		return object{"type": "object"}
	case t.Kind() == reflect.String:
		schema := object{"type": "string"}
		if values := s.source.values[t.String()]; values != nil {
			schema["enum"] = slices.Clone(values)
		}
		return schema
	case t.Kind() == reflect.Bool:
		return object{"type": "boolean"}
	case t.Kind() == reflect.Float64:
		return object{"type": "number"}
	case t.Kind() >= reflect.Int && t.Kind() <= reflect.Uint64:
		return object{"type": "integer"}
	}
	panic("no schema for " + t.String())
}

// nullable also allows null. A schema from of is a type, a reference or a choice.
func nullable(schema object) object {
	name, ok := schema["type"].(string)
	if !ok {
		return object{"anyOf": []any{schema, object{"type": "null"}}}
	}
	schema["type"] = []any{name, "null"}
	if values, ok := schema["enum"].([]any); ok {
		schema["enum"] = append(values, nil)
	}
	return schema
}

// component adds the schema of a struct and returns a reference to it. A type in a request has another one than in an
// answer.
func (s *schemas) component(t reflect.Type) object {
	name := t.Name()
	if s.request {
		name = strings.TrimSuffix(name, "Request") + "Request"
	}
	ref := object{"$ref": "#/components/schemas/" + name}
	if earlier, done := s.types[name]; done {
		if earlier != t {
			panic("two types are called " + name)
		}
		return ref
	}
	s.types[name] = t
	properties, required := object{}, []any{}
	component := object{"type": "object", "properties": properties, "description": s.source.docs[t.String()]}
	s.components[name] = component
	for _, f := range fields(t) {
		jsonName, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		in, last := t, len(f.Index)-1
		if last > 0 && t.FieldByIndex(f.Index[:last]).Type == reflect.TypeFor[sandbox.Bound]() {
			in = reflect.TypeFor[api.Bound]()
			f, _ = in.FieldByName(f.Name)
		}
		properties[jsonName] = s.field(in, f)
		if s.request && f.Tag.Get("required") != "" || !s.request && !strings.Contains(options, "omit") {
			required = append(required, jsonName)
		}
	}
	if len(required) > 0 {
		component["required"] = required
	}
	if t == reflect.TypeFor[api.Hint]() {
		component["allOf"] = s.facts()
	}
	if s.request {
		component["additionalProperties"] = false
		if one := s.oneOf(t); one != nil {
			component["oneOf"] = one
		}
	}
	return ref
}

// facts describes the facts of each hint that has some, by its code.
func (s *schemas) facts() (rules []any) {
	for _, code := range slices.Sorted(maps.Keys(sandbox.Hints)) {
		t := reflect.TypeOf(sandbox.Hints[code])
		if t.Kind() == reflect.Struct && t != reflect.TypeFor[sandbox.FixText]() {
			rules = append(rules, object{"if": object{"properties": object{"code": object{"const": code}}},
				"then": object{"properties": object{"facts": s.component(t)}}})
		}
	}
	return rules
}

// fields lists the fields of a struct that are in its JSON.
func fields(t reflect.Type) []reflect.StructField {
	return slices.DeleteFunc(reflect.VisibleFields(t), func(f reflect.StructField) bool {
		name := f.Tag.Get("json")
		return f.Anonymous || !f.IsExported() || name == "" || name == "-"
	})
}

// oneOf requires exactly one field of a group. null and an empty list mean that the field was not sent.
func (s *schemas) oneOf(t reflect.Type) (choices []any) {
	for _, f := range fields(t) {
		if f.Tag.Get("one") == "" {
			continue
		}
		kind := f.Type
		if kind.Kind() == reflect.Pointer {
			kind = kind.Elem()
		}
		present := s.of(kind)
		if present["type"] == "array" {
			present = object{"type": "array", "minItems": 1}
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		choices = append(choices, object{"required": []any{name}, "properties": object{name: present}})
	}
	return choices
}

func (s *schemas) field(in reflect.Type, f reflect.StructField) object {
	kind, optional := f.Type, f.Tag.Get("required") == ""
	if s.request && kind.Kind() == reflect.Pointer {
		kind = kind.Elem()
	}
	schema := s.of(kind)
	if f.Tag.Get("number") != "" {
		schema = object{"type": []any{"string", "integer"}}
	}
	if tag := f.Tag.Get("enum"); tag != "" {
		var values []any
		for value := range strings.SplitSeq(tag, ",") {
			values = append(values, value)
		}
		schema["enum"] = values
	}
	if most, err := strconv.Atoi(f.Tag.Get("max")); err == nil && s.request {
		schema[map[any]string{"array": "maxItems", "object": "maxProperties"}[schema["type"]]] = most
	}
	if over, err := strconv.ParseFloat(f.Tag.Get("over"), 64); err == nil {
		schema["exclusiveMinimum"] = over
	}
	if least, err := strconv.ParseFloat(f.Tag.Get("least"), 64); err == nil {
		schema["minimum"] = least
	}
	if pattern := f.Tag.Get("pattern"); pattern != "" {
		schema["pattern"] = pattern
	}
	if f.Tag.Get("whole") != "" {
		schema["multipleOf"] = 1
	}
	example := exampleOf(schema, f.Tag.Get("example"))
	if nullList := f.Tag.Get("json") == "commands"; s.request && optional || !s.request && nullList {
		schema = nullable(schema)
	}
	for i := range len(f.Index) - 1 { // the struct that declares the field
		in = in.FieldByIndex(f.Index[:i+1]).Type
	}
	if doc := s.source.docs[in.String()+"."+f.Name]; doc != "" {
		schema["description"] = doc
	}
	if example != nil {
		schema["examples"] = []any{example}
	}
	return schema
}

// exampleOf gives an example the type of its field.
func exampleOf(schema object, text string) any {
	switch {
	case text == "":
		return nil
	case schema["type"] == "array":
		return []any{text}
	case schema["type"] == "string" || schema["type"] == nil:
		return text
	}
	if f, err := strconv.ParseFloat(text, 64); err == nil {
		return f
	}
	return text
}

// source is what reflection cannot see.
type source struct {
	docs   map[string]string // doc comments, by "package.Type" and "package.Type.Field"
	values map[string][]any  // constants, by their "package.Type"
}

func readSource(t *testing.T, dirs ...string) source {
	t.Helper()
	s := source{map[string]string{}, map[string][]any{}}
	files := token.NewFileSet()
	for _, dir := range dirs {
		packages, err := parser.ParseDir(files, dir, nil, parser.ParseComments) //nolint:staticcheck // no types needed
		if err != nil {
			t.Fatal(err)
		}
		for name, pkg := range packages {
			for _, file := range slices.Sorted(maps.Keys(pkg.Files)) {
				for _, decl := range pkg.Files[file].Decls {
					if d, ok := decl.(*ast.GenDecl); ok {
						s.declaration(name, d)
					}
				}
			}
		}
	}
	return s
}

func (s *source) declaration(pkg string, d *ast.GenDecl) {
	for _, spec := range d.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			name := pkg + "." + spec.Name.Name
			s.docs[name] = unwrapped(cmp.Or(spec.Doc.Text(), d.Doc.Text()))
			if of, ok := spec.Type.(*ast.StructType); ok {
				for _, f := range of.Fields.List {
					for _, field := range f.Names {
						s.docs[name+"."+field.Name] = unwrapped(f.Doc.Text() + f.Comment.Text())
					}
				}
			}
		case *ast.ValueSpec:
			of, typed := spec.Type.(*ast.Ident)
			for _, value := range spec.Values {
				if text, ok := value.(*ast.BasicLit); ok && typed && text.Kind == token.STRING {
					plain, _ := strconv.Unquote(text.Value)
					s.values[pkg+"."+of.Name] = append(s.values[pkg+"."+of.Name], plain)
				}
			}
		}
	}
}

// unwrapped joins the lines of each paragraph.
func unwrapped(text string) string {
	paragraphs := strings.Split(strings.TrimSpace(text), "\n\n")
	for i, p := range paragraphs {
		paragraphs[i] = strings.ReplaceAll(p, "\n", " ")
	}
	return strings.Join(paragraphs, "\n\n")
}
