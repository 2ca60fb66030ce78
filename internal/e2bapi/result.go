package e2bapi

import (
	"encoding/json"
	"strings"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// fieldOf has the fields of results by media type; others are in extra.
var fieldOf = map[string]string{"text/plain": "text", "text/html": "html", "text/markdown": "markdown",
	"image/svg+xml": "svg", "image/png": "png", "image/jpeg": "jpeg", "application/pdf": "pdf", "text/latex": "latex",
	"application/json": "json", "application/javascript": "javascript", sandbox.MediaChart: "chart"}

// resultOf returns the line of a value that the code displayed.
func resultOf(v *sandbox.Value) map[string]any {
	out, extra := map[string]any{"type": "result", "is_main_result": v.Main}, map[string]any{}
	for _, form := range v.Forms {
		into, name := out, fieldOf[form.Type]
		if name == "" {
			into, name = extra, form.Type
		}
		switch {
		case strings.HasPrefix(form.Type, "image/") && form.Type != "image/svg+xml":
			into[name] = form.Data // in base64
		case form.Type == "text/plain":
			into[name] = unquoted(string(form.Data))
		case strings.HasSuffix(form.Type, "json") && json.Valid(form.Data):
			into[name] = json.RawMessage(form.Data)
		default:
			into[name] = string(form.Data)
		}
	}
	if out["text"] == placeholderOf(v) { // of a value without a text
		delete(out, "text")
	}
	if data := frameOf(v); data != nil {
		delete(out, "json")
		out["data"] = data
	}
	out["extra"] = extra
	return out
}

// placeholderOf returns the text that the driver gives to forms that code displays without a text.
func placeholderOf(v *sandbox.Value) string {
	var types []string
	for _, form := range v.Forms {
		if form.Type != "text/plain" {
			types = append(types, form.Type)
		}
	}
	return "<" + strings.Join(types, ", ") + ">"
}

// maxFrame bounds the JSON of a frame that is decoded: one value of two bytes becomes 24 bytes in memory.
const maxFrame = 256 << 10

// frameOf returns a whole frame of pandas by columns, as E2B does, or nil for any other value. Only frames have both a
// table in HTML and JSON with these fields.
func frameOf(v *sandbox.Value) map[string][]json.RawMessage {
	var frame struct {
		Columns []any               `json:"columns"`
		Data    [][]json.RawMessage `json:"data"`
		Shape   []int               `json:"shape"` // of one that was shortened
	}
	table := false
	for _, form := range v.Forms {
		switch form.Type {
		case "text/html":
			table = true
		case "application/json":
			if len(form.Data) > maxFrame || json.Unmarshal(form.Data, &frame) != nil {
				return nil
			}
		}
	}
	if !table || frame.Columns == nil || frame.Shape != nil {
		return nil
	}
	columns := map[string][]json.RawMessage{}
	for i, name := range frame.Columns {
		text, ok := name.(string)
		if !ok {
			raw, err := json.Marshal(name)
			if err != nil {
				return nil
			}
			text = string(raw)
		}
		values := make([]json.RawMessage, 0, len(frame.Data))
		for _, row := range frame.Data {
			if len(row) != len(frame.Columns) {
				return nil
			}
			values = append(values, row[i])
		}
		columns[text] = values
	}
	return columns
}

// unquoted removes one pair of quotes around a text, as E2B does.
func unquoted(text string) string {
	if n := len(text); n >= 2 && (text[0] == '\'' || text[0] == '"') && text[n-1] == text[0] {
		return text[1 : n-1]
	}
	return text
}
