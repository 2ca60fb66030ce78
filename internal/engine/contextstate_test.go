package engine_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestState: variables of one context reach another, and a hostile driver costs at most its own context.
func TestState(t *testing.T) {
	_, s := contextRig(t)
	do(t, s, code("python", "x = {1: (2, b'3')}; y = [x, x]; f = open('/dev/null')"))
	from, err := s.Context(sandbox.DefaultContext)
	if err != nil {
		t.Fatal(err)
	}
	document, err := from.Export(within(t), nil)
	if err != nil || !strings.Contains(string(document), `"y":[{"$ref":0},{"$ref":0}]`) {
		t.Fatalf("%v: %s", err, document)
	}
	to, err := s.CreateContext(within(t), engine.ContextRequest{Name: "to", Language: "python"})
	if err != nil {
		t.Fatal(err)
	}
	report, err := to.Import(within(t), document)
	if err != nil || string(report) != `{"set":["x","y"],"missing":[]}` {
		t.Errorf("%v: %s", err, report)
	}
	in := func(text string) *sandbox.Result {
		req := code("python", text)
		req.Context = "to"
		return do(t, s, req)
	}
	if r := in("y[0] is y[1] is x and x"); value(r) != "{1: (2, b'3')}" {
		t.Errorf("%s", value(r))
	}
	for want, text := range map[sandbox.Kind][]byte{sandbox.TooLarge: make([]byte, engine.MaxState+1),
		sandbox.Invalid: []byte("{")} {
		if _, err := to.Import(within(t), text); sandbox.KindOf(err) != want {
			t.Errorf("want %v: %v", want, err)
		}
	}
	in("import gc\ndriver = next(o for o in gc.get_objects() if type(o) is dict and 'write_pending' in o)\n" +
		"send = driver['send']\n" +
		"def forged(id, data): send(b'state', id, b'1', answer)\ndriver['exported'] = forged; driver['PARTS'].clear()")
	for what, answer := range map[string]string{"no JSON": "b'{'", "no text": "b'\"\\xff\"'",
		"too large": "b'[' + b' ' * (21 << 20) + b']'"} {
		in("answer = " + answer)
		if text, err := to.Export(within(t), []string{"x"}); err == nil || json.Valid(text) {
			t.Errorf("%s: %v, %.20q", what, err, text)
		}
	}
	bash, err := s.CreateContext(within(t), engine.ContextRequest{Name: "bash", Language: "bash"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = bash.Export(within(t), nil)
	refused(t, "a language without documents", err, sandbox.Unsupported, "bash")
}
