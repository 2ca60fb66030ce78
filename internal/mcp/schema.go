package mcp

import (
	"encoding/json"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// object is a part of a JSON schema.
type object map[string]any

func field(kind, description string) object { return object{"type": kind, "description": description} }

// may allows null besides the type of a field.
func may(f object) object {
	f["type"] = []any{f["type"], "null"}
	return f
}

// taking returns the schema of arguments, which refuses other fields.
func taking(fields object, required ...string) object {
	s := object{"type": "object", "properties": fields, "additionalProperties": false}
	if len(required) > 0 {
		s["required"] = required
	}
	return s
}

// giving returns the schema of a result. Fields that are not required may be absent.
func giving(fields object, required ...string) object {
	return object{"type": "object", "properties": fields, "required": required}
}

// Formats lists the formats of Function.
var Formats = []string{"openai-responses", "openai-chat", "anthropic"}

// Function returns the definition of run_code as a format's API wants it among its tools. The arguments of a call are a
// body of POST /v1/sandboxes/{id}/run.
func Function(format string) ([]byte, error) {
	t := tools(sandbox.Spec{}, "")[0]
	input := codeInput("limits", taking(object{"timeout_s": timeout}))
	input["examples"] = []object{{"code": "x = 6*7\nx"},
		{"code": "ls -l", "language": "bash", "limits": object{"timeout_s": 10}}}
	var v any
	switch format {
	case "openai-responses": // strict, its default, would demand every argument
		v = struct {
			Type        string `json:"type"`
			Name        string `json:"name"`
			Description string `json:"description"`
			Parameters  any    `json:"parameters"`
			Strict      bool   `json:"strict"`
		}{"function", t.Name, t.Description, input, false}
	case "openai-chat":
		type function struct {
			Name        string `json:"name"`
			Description string `json:"description"`
			Parameters  any    `json:"parameters"`
		}
		v = struct {
			Type     string   `json:"type"`
			Function function `json:"function"`
		}{"function", function{t.Name, t.Description, input}}
	case "anthropic":
		v = struct {
			Name        string `json:"name"`
			Description string `json:"description"`
			InputSchema any    `json:"input_schema"`
		}{t.Name, t.Description, input}
	default:
		return nil, sandbox.Invalidf("format", "%.40q is unknown", format)
	}
	return json.MarshalIndent(v, "", "  ")
}
