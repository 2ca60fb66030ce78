package toolcall

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// doubling is a schema whose references double n times, in place or with an item in between.
func doubling(n int, item bool) string {
	var b strings.Builder
	for i := range n {
		ref := fmt.Sprintf(`{"$ref":"#/$defs/a%d"}`, i+1)
		if item {
			ref = fmt.Sprintf(`{"items":%s}`, ref)
		}
		fmt.Fprintf(&b, `"a%d":{"anyOf":[%s,%s]},`, i, ref, ref)
	}
	return fmt.Sprintf(`{"$ref":"#/$defs/a0","$defs":{%s"a%d":{"required":["z"]}}}`, &b, n)
}

// numbered returns the numbers from 1 to n.
func numbered(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%d,", i+1)
	}
	return strings.TrimSuffix(b.String(), ",")
}

// TestCostlySchemas: what would take the validator more than a bounded time and memory is refused before it runs: a
// schema that would overflow its stack when the run begins, and arguments when they come.
func TestCostlySchemas(t *testing.T) {
	list := func(text string, n int) string {
		return `{"n":[` + strings.TrimSuffix(strings.Repeat(text+",", n), ",") + `]}`
	}
	long := `{"n":["` + strings.Repeat("x", 900_000) + `"]}`
	nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	of := func(schema string) string { return `{"properties":{"n":` + schema + `}}` }
	for _, c := range []struct{ name, schema, arguments, want string }{
		{"itself", `{"$ref":"#"}`, "", "refers to itself"},
		{"a circle", `{"allOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"not":{"$ref":"#"}}}}`, "", "refers to itself"},
		{"other letters", `{"allOf":[{"$Ref":"#"}]}`, "", "refers to itself"},
		{"dynamic", `{"$dynamicRef":"#a"}`, "", "$dynamicRef"},
		{"a name", `{"$ref":"#a","$defs":{"a":{"$anchor":"a"}}}`, "", "only paths"},
		{"a long pattern", of(`{"pattern":"` + strings.Repeat("x", 2000) + `"}`), "", "more than 1000 bytes"},
		{"a large pattern", of(`{"pattern":"` + strings.Repeat(`(abc){999}`, 90) + `"}`), "", "more than 10000 parts"},
		{"doubled in place", doubling(24, false), `{}`, "too large"},
		{"doubled at each depth", doubling(40, true), list(nested(40), 1), "too large"},
		{"a slow pattern", of(`{"items":{"pattern":"(a?){999}"}}`), long, "too large"},
		{"many failures", of(`{"items":{"anyOf":[` + strings.Repeat(`{"type":"null"},`, 1000) + `true]}}`), long,
			"too large"},
		{"many values", of(`{"items":{"enum":[` + strings.Repeat(`1,`, 15000) + `2]}}`), list("3", 90_000),
			"too large"},
		{"a list of numbers", of(`{"items":{"not":{"enum":[` + strings.Repeat(`1,`, 15000) + `1]}}}`), list("2", 300),
			"too large"},
		{"equal hashes", of(`{"uniqueItems":true}`), list(`["x","xx"]`, 4000), "too large"},

		{"a set of numbers", of(`{"uniqueItems":true,"items":{"minimum":1}}`), `{"n":[` + numbered(20_000) + `]}`, ""},
		{"a set of pairs", of(`{"uniqueItems":true}`), `{"n":[[` +
			strings.ReplaceAll(numbered(500), ",", "],[") + `]]}`, ""},
		{"a long text", of(`{"items":{"type":"string","pattern":"^(x|y)+$"}}`), long, ""},
		{"many objects",
			`{"properties":{"n":{"items":{"$ref":"#/$defs/p"}}},"$defs":{"p":{"properties":{"x":{"type":"integer"},
			"y":{"anyOf":[{"type":"string"},{"type":"null"}]}},"required":["x"]}}}`,
			list(`{"x":1,"y":"abc"}`, 30_000), ""},
		{"a tree", of(`{"$ref":"#/$defs/t"}},"$defs":{"t":{"items":{"$ref":"#/$defs/t"}}`),
			list(nested(30), 500), ""},
		{"kinds of expressions", of(`{"$ref":"#/$defs/e"}},"$defs":{"e":{"oneOf":[{"type":"integer"},
			{"properties":{"a":{"$ref":"#/$defs/e"},"b":{"$ref":"#/$defs/e"}},"required":["a"],"type":"object"},
			{"properties":{"not":{"$ref":"#/$defs/e"}},"required":["not"],"type":"object"}]}`),
			`{"n":{"a":{"not":{"a":{"a":1,"b":2},"b":{"not":3}}},"b":4}}`, ""},
	} {
		got := ""
		s, err := Check(sandbox.Calls{Tools: []sandbox.Tool{{Name: "page", Schema: []byte(c.schema)}}})
		if err == nil {
			_, err = s.Arguments("page", []byte(c.arguments))
		}
		if err != nil {
			got = err.Error()
		}
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: %.300q", c.name, got)
		}
	}
}

// TestWorkOfRun: the checks of all calls of a run are bounded together, and so are the schemas of its tools.
func TestWorkOfRun(t *testing.T) {
	pairs := `{"n":[` + strings.Repeat(`["x","xx"],`, 1999) + `[]]}`
	tools := []sandbox.Tool{{Name: "costly", Schema: []byte(`{"properties":{"n":{"uniqueItems":true}}}`)},
		{Name: "cheap", Schema: []byte(`{}`)}}
	s, err := Check(sandbox.Calls{Tools: tools})
	if err != nil {
		t.Fatal(err)
	}
	calls := 0
	for ; calls < 100; calls++ {
		if _, err = s.Arguments("costly", []byte(pairs)); strings.Contains(err.Error(), "other calls") {
			break
		}
	}
	if _, cheap := s.Arguments("cheap", []byte(`{}`)); calls < 10 || calls == 100 || cheap != nil {
		t.Errorf("%d calls: %v; then %v", calls, err, cheap)
	}
	list := `{"anyOf":[` + strings.Repeat(`{},`, 999) + `{}]}`
	tools = nil
	for i := range 9 {
		tools = append(tools, sandbox.Tool{Name: fmt.Sprint("f", i), Schema: []byte(list)})
	}
	if _, err := Check(sandbox.Calls{Tools: tools}); err != nil {
		t.Error(err)
	}
	tools = append(tools, sandbox.Tool{Name: "more", Schema: []byte(list)})
	if _, err := Check(sandbox.Calls{Tools: tools}); sandbox.KindOf(err) != sandbox.TooLarge {
		t.Errorf("%d schemas: %v", 10*1001, err)
	}
}

// TestKeptSchemas: a run keeps few compiled schemas, however many tools its code has called, and compiling others again
// is work of the run.
func TestKeptSchemas(t *testing.T) {
	var properties []string
	for i := range 400 {
		properties = append(properties, fmt.Sprintf(`"p%d":{"type":"object","properties":{}}`, i))
	}
	small := sandbox.Tool{Name: "small", Schema: []byte(`{"properties":{"a":{"type":"string"}}}`)}
	for name, large := range map[string]string{
		"parts":  `{"type":"object","properties":{` + strings.Join(properties, ",") + `}}`,
		"values": `{"type":"object","enum":[` + strings.Repeat(`[],`, 8000) + `{}]}`,
	} {
		tools := []sandbox.Tool{small}
		for i := range 8 {
			tools = append(tools, sandbox.Tool{Name: fmt.Sprintf("large%d", i), Schema: []byte(large)})
		}
		set, err := Known(sandbox.Calls{Tools: tools})
		if err != nil {
			t.Fatal(err)
		}
		for _, tool := range tools {
			if _, err := set.Arguments(tool.Name, []byte(`{}`)); err != nil {
				t.Fatal(err)
			}
		}
		if len(set.compiled) != 1 || set.compiled["small"] == nil || set.kept > 4<<10 {
			t.Errorf("%s: %d tools are kept, of %d bytes", name, len(set.compiled), set.kept)
		}
		if set.spent < 8*400*partWork {
			t.Errorf("%s: compiling counts as %g", name, set.spent)
		}
		set.spent = maxRunWork + 1
		_, err = set.Arguments("large1", []byte(`{}`))
		if err == nil || !strings.Contains(err.Error(), "too much work") {
			t.Errorf("%s: after all work: %v", name, err)
		}
	}
}
