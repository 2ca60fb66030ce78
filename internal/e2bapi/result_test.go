package e2bapi

import (
	"encoding/json"
	"testing"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestResultOf: each form has the field that E2B's SDKs read, and no form can damage the stream.
func TestResultOf(t *testing.T) {
	const table, frame = "text/html", `{"columns":["a",1],"index":[0,1],"data":[[1,null],[3,"x"]]}`
	for _, c := range []struct {
		forms []string // types and their data
		want  string   // without is_main_result and type
	}{
		{[]string{"text/plain", "'a'"}, `{"extra":{},"text":"a"}`},
		{[]string{"text/latex", "x", "text/plain", "<text/latex>"}, `{"extra":{},"latex":"x"}`},
		{[]string{"image/png", "\x89PNG"}, `{"extra":{},"png":"iVBORw=="}`},
		{[]string{"image/svg+xml", "<svg/>"}, `{"extra":{},"svg":"\u003csvg/\u003e"}`},
		{[]string{"application/json", `{"a":1}`}, `{"extra":{},"json":{"a":1}}`},
		{[]string{"application/json", `{"a":`}, `{"extra":{},"json":"{\"a\":"}`},
		{[]string{sandbox.MediaChart, `{"type":"line"}`}, `{"chart":{"type":"line"},"extra":{}}`},
		{[]string{"application/vnd.plotly.v1+json", `{"data":[]}`},
			`{"extra":{"application/vnd.plotly.v1+json":{"data":[]}}}`},
		{[]string{table, "t", "application/json", frame},
			`{"data":{"1":[null,"x"],"a":[1,3]},"extra":{},"html":"t"}`},
		{[]string{"application/json", frame}, `{"extra":{},"json":` + frame + `}`},
		{[]string{table, "t", "application/json", `{"columns":["a"],"data":[[1,2]]}`},
			`{"extra":{},"html":"t","json":{"columns":["a"],"data":[[1,2]]}}`},
		{[]string{table, "t", "application/json", `{"columns":["a"],"data":[[1]],"shape":[9,1]}`},
			`{"extra":{},"html":"t","json":{"columns":["a"],"data":[[1]],"shape":[9,1]}}`},
	} {
		v := sandbox.Value{}
		for i := 0; i < len(c.forms); i += 2 {
			v.Forms = append(v.Forms, sandbox.Form{Type: c.forms[i], Data: []byte(c.forms[i+1])})
		}
		line := resultOf(&v)
		delete(line, "type")
		delete(line, "is_main_result")
		got, err := json.Marshal(line)
		if err != nil || string(got) != c.want {
			t.Errorf("%q: %s %v, not %s", c.forms, got, err, c.want)
		}
	}
}

func TestDedented(t *testing.T) {
	for code, want := range map[string]string{
		"":                           "",
		"a\n  b":                     "a\n  b",
		"\n  a\n    b\n\n  c":        "\na\n  b\n\nc",
		"\ta\n b":                    "a\n b",
		"\n\n    if a:\n        b\n": "\n\nif a:\n    b\n",
	} {
		if got := dedented(code); got != want {
			t.Errorf("%q: %q, not %q", code, got, want)
		}
	}
}
