package openaiapi

import (
	"net/url"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/sandbox"
)

func TestCut(t *testing.T) {
	for _, c := range []struct {
		text string
		most int64
		want string
	}{{"héllo", 2, "hé"}, {"héllo", 5, "héllo"}, {"héllo", 0, ""}, {"", 0, ""}, {"\xffa", 1, "\xff"}} {
		if got := cut(c.text, c.most); got != c.want {
			t.Errorf("%q %d: %q", c.text, c.most, got)
		}
	}
}

// TestPageOf walks through a list in pages.
func TestPageOf(t *testing.T) {
	for order, want := range map[string]string{"asc": "abcde", "desc": "edcba"} {
		var got []string
		for after := ""; ; {
			q := url.Values{"limit": {"2"}, "order": {order}, "after": {after}}
			p, err := pageOf(q, []string{"a", "b", "c", "d", "e"}, func(s string) string { return s })
			if err != nil || len(p.Data) == 0 || *p.First != p.Data[0] {
				t.Fatal(p, err)
			}
			got = append(got, p.Data...)
			if after = *p.Last; !p.More {
				break
			}
		}
		if strings.Join(got, "") != want {
			t.Errorf("%s: %v", order, got)
		}
	}
	for _, q := range []url.Values{{"limit": {"0"}}, {"limit": {"x"}}, {"after": {"z"}}} {
		if _, err := pageOf(q, []string{"a"}, func(s string) string { return s }); err == nil {
			t.Errorf("%v is accepted", q)
		}
	}
}

// TestLongLogs: the answer to a call holds the text of the values of its code once, however they are cut.
func TestLongLogs(t *testing.T) {
	const values, size = 256, 16 << 10
	r := &sandbox.Result{}
	for range values {
		r.Results = append(r.Results, sandbox.Value{Forms: []sandbox.Form{
			{Type: "text/plain", Data: []byte(strings.Repeat("\x01", size))}}})
	}
	call := codeCall{Outputs: outputsOf(r)}
	if n := len(call.Outputs); n != 1 || len(call.Outputs[0].Logs) != values*(size+1)-1 {
		t.Fatalf("%d outputs", n)
	}
	text := call.layOut()
	if held := text.Size(); held > values*(size+1)+1<<10 {
		t.Errorf("%d bytes are held for %d", held, values*size)
	}
	if want := int64(6 * values * size); text.Length() < want {
		t.Errorf("the JSON has %d bytes, not %d", text.Length(), want)
	}
}
