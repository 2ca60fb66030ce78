package httpapi

import (
	"reflect"
	"strconv"
	"strings"
)

// schemas turns Go types into JSON Schema 2020-12, for OpenAPI 3.1. Structs become components. It reads the tags that the decoder
// enforces (json, required, max), those of the fields' own checks (one: exactly one field of this group; number: text or a number; over: more than this; whole;
// pattern), and doc, enum and example.
type schemas struct {
	components map[string]any
	types      map[string]reflect.Type // by the name of their component
	request    bool                    // optional fields may be null, and unknown fields are refused, as in the decoder
}

type object = map[string]any

func (s *schemas) of(t reflect.Type) object {
	switch {
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
	case t.Kind() == reflect.Interface:
		return object{} // any value
	case t.Kind() == reflect.String:
		return object{"type": "string"}
	case t.Kind() == reflect.Bool:
		return object{"type": "boolean"}
	case t.Kind() == reflect.Float64:
		return object{"type": "number"}
	case t.Kind() >= reflect.Int && t.Kind() <= reflect.Uint64:
		return object{"type": "integer"}
	}
	panic("httpapi: no schema for " + t.String())
}

// nullable also allows null. A schema from of is a type, a reference or a choice.
func nullable(schema object) object {
	if name, ok := schema["type"].(string); ok {
		schema["type"] = []any{name, "null"}
		return schema
	}
	return object{"anyOf": []any{schema, object{"type": "null"}}}
}

// component adds the schema of a struct and returns a reference to it.
func (s *schemas) component(t reflect.Type) object {
	ref := object{"$ref": "#/components/schemas/" + t.Name()}
	if _, done := s.components[t.Name()]; done {
		if s.types[t.Name()] != t {
			panic("httpapi: two types are called " + t.Name())
		}
		return ref
	}
	s.types[t.Name()] = t
	properties, required := object{}, []any{}
	component := object{"type": "object", "properties": properties}
	s.components[t.Name()] = component
	plan := planOf(t)
	for i, f := range plan.fields {
		properties[plan.names[i]] = s.field(f)
		_, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if s.request && f.Tag.Get("required") != "" || !s.request && !strings.Contains(options, "omit") {
			required = append(required, plan.names[i])
		}
	}
	if len(required) > 0 {
		component["required"] = required
	}
	if s.request {
		component["additionalProperties"] = false
		if one := s.oneOf(plan); one != nil {
			component["oneOf"] = one
		}
	}
	return ref
}

// oneOf requires exactly one field of a group. null and an empty list mean that the field was not sent.
func (s *schemas) oneOf(plan *structPlan) (choices []any) {
	for i, f := range plan.fields {
		if f.Tag.Get("one") == "" {
			continue
		}
		kind := f.Type
		if kind.Kind() == reflect.Pointer {
			kind = kind.Elem()
		}
		there := s.of(kind)
		if typeName(there) == "array" {
			there = object{"type": "array", "minItems": 1}
		}
		choices = append(choices, object{"required": []any{plan.names[i]}, "properties": object{plan.names[i]: there}})
	}
	return choices
}

func (s *schemas) field(f reflect.StructField) object {
	kind := f.Type
	if s.request && f.Tag.Get("required") != "" && kind.Kind() == reflect.Pointer {
		kind = kind.Elem() // null means not sent
	}
	schema := s.of(kind)
	if f.Tag.Get("number") != "" {
		schema = object{"type": []any{"string", "integer"}}
	}
	if values := f.Tag.Get("enum"); values != "" {
		var list []any
		for value := range strings.SplitSeq(values, ",") {
			list = append(list, value)
		}
		if items, ok := schema["items"].(object); ok {
			items["enum"] = list
		} else {
			schema["enum"] = list
		}
	}
	if most, err := strconv.Atoi(f.Tag.Get("max")); err == nil {
		bound := map[string]string{"array": "maxItems", "object": "maxProperties"}[typeName(schema)]
		if bound != "" {
			schema[bound] = most
		}
	}
	if over, err := strconv.ParseFloat(f.Tag.Get("over"), 64); err == nil {
		schema["exclusiveMinimum"] = over
	}
	if pattern := f.Tag.Get("pattern"); pattern != "" {
		schema["pattern"] = pattern
	}
	if f.Tag.Get("whole") != "" {
		schema["multipleOf"] = 1
	}
	mayBeNull := s.request && f.Tag.Get("required") == "" && f.Type.Kind() != reflect.Pointer
	if values, ok := schema["enum"].([]any); ok && mayBeNull {
		schema["enum"] = append(values, nil)
	}
	commands := !s.request && f.Tag.Get("json") == "commands" // null is a value here
	if mayBeNull || commands {
		schema = nullable(schema)
	}
	if doc := f.Tag.Get("doc"); doc != "" {
		schema["description"] = doc
	}
	if example := f.Tag.Get("example"); example != "" {
		schema["examples"] = []any{exampleOf(schema, example)}
	}
	return schema
}

func typeName(schema object) string {
	name, _ := schema["type"].(string)
	return name
}

// exampleOf gives an example the type of its field.
func exampleOf(schema object, text string) any {
	name := typeName(schema)
	if list, ok := schema["type"].([]any); ok {
		name, _ = list[0].(string)
	}
	switch name {
	case "number", "integer":
		if f, err := strconv.ParseFloat(text, 64); err == nil {
			return f
		}
	case "array":
		return []any{text}
	}
	return text
}
