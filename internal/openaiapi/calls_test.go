package openaiapi

import (
	"net/url"
	"strings"
	"testing"
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
