package intercept

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/fumehood-dev/fumehood/internal/egress/rules"
	"github.com/fumehood-dev/fumehood/sandbox"
)

const (
	userValue = "the first value"
	passValue = "ghp_Sec0nd/Value+=?"
)

// twoSecrets are secrets for api.test.
func twoSecrets(t *testing.T) []rules.Secret {
	t.Helper()
	compiled, err := rules.Compile(sandbox.NetworkPolicy{Mode: sandbox.NetworkRestricted, Secrets: []sandbox.Secret{
		{Name: "USER_NAME", Hosts: []string{"api.test"}, Value: userValue, Placeholder: NewPlaceholder("")},
		{Name: "PASSWORD", Hosts: []string{"api.test"}, Value: passValue, Placeholder: NewPlaceholder(""),
			Headers: []string{"authorization", "x-mine"}}}})
	if err != nil {
		t.Fatal(err)
	}
	return compiled.Secrets
}

func basic(s string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(s)) }

// TestInsertSecrets: values are put only into the headers that each secret permits, and all values of a pair at once.
func TestInsertSecrets(t *testing.T) {
	secrets := twoSecrets(t)
	user, pass := secrets[0].Placeholder, secrets[1].Placeholder
	for _, c := range []struct {
		header, sent, want string
		inserted, lacks    []string
	}{
		{"Authorization", "Bearer " + user, "Bearer " + userValue, []string{"USER_NAME"}, nil},
		{"Authorization", basic(user + ":" + pass), basic(userValue + ":" + passValue),
			[]string{"PASSWORD", "USER_NAME"}, nil},
		{"Authorization", basic(pass), basic(passValue), []string{"PASSWORD"}, nil},
		{"X-Mine", pass + pass + user, passValue + passValue + user, []string{"PASSWORD"}, []string{"USER_NAME"}},
		{"X-Api-Key", user + pass, userValue + pass, []string{"USER_NAME"}, []string{"PASSWORD"}},
		{"X-Goog-Meta-K", user + pass, user + pass, nil, []string{"PASSWORD", "USER_NAME"}},
		{"Authorization", user[:40] + user, user[:40] + userValue, []string{"USER_NAME"}, nil},
		{"Authorization", user[:len(user)-1], user[:len(user)-1], nil, nil},
		{"Authorization", "Basic " + user + "!", "Basic " + userValue + "!", []string{"USER_NAME"}, nil},
	} {
		h := http.Header{c.header: {c.sent}}
		done := insertSecrets(secrets, "api.test", 443, h)
		if got := h[c.header][0]; got != c.want || !slices.Equal(done.inserted, c.inserted) ||
			!slices.Equal(done.misplaced, c.lacks) {
			t.Errorf("%s: %s is sent as %q with %+v", c.header, c.sent, got, done)
		}
		h = http.Header{c.header: {c.sent}}
		if done := insertSecrets(secrets, "other.test", 443, h); h[c.header][0] != c.sent || done.inserted != nil {
			t.Errorf("another host gets %q", h[c.header])
		}
	}
	h := http.Header{"Authorization": {strings.Repeat(user, 1<<20/len(user))}}
	if done := insertSecrets(secrets, "api.test", 443, h); done.count <= maxInserted ||
		strings.Count(h.Get("Authorization"), userValue) != maxInserted {
		t.Errorf("%d values are inserted", strings.Count(h.Get("Authorization"), userValue))
	}
}

// pieces returns what a stream returns for each piece of a text, the last one at the end of the text.
func pieces(f *finder, texts ...string) (out []string) {
	s := stream{find: f}
	for i, text := range texts {
		out = append(out, string(s.write([]byte(text), i == len(texts)-1)))
	}
	return out
}

// chunks cuts a text into pieces of a size.
func chunks(text string, size int) (list []string) {
	for part := range slices.Chunk([]byte(text), size) {
		list = append(list, string(part))
	}
	return list
}

// TestStreamHides: no part of a value comes back, in any letter case, in Base64 at any position, over the boundaries of
// pieces, and where two values overlap.
func TestStreamHides(t *testing.T) {
	secrets := twoSecrets(t)
	f := newFinder(secrets)
	held := secrets[1].Placeholder
	for before := range 4 {
		for after := range 4 {
			plain := "aaaa"[:before] + passValue + "zzzz"[:after]
			for _, text := range []string{plain, strings.ToUpper(plain), strings.ToLower(plain),
				base64.StdEncoding.EncodeToString([]byte(plain)),
				base64.RawURLEncoding.EncodeToString([]byte(plain))} {
				for cut := range len(text) {
					got := strings.Join(pieces(f, text[:cut], text[cut:]), "")
					left := strings.Replace(got, held, "", 1)
					if len(left) == len(got) || len(left) > 12 {
						t.Fatalf("%q at %d: %q", text, cut, got)
					}
				}
			}
		}
	}
	overlapping := newFinder([]rules.Secret{
		{Secret: sandbox.Secret{Value: "abcdefgh1234", Placeholder: "<1>"}},
		{Secret: sandbox.Secret{Value: "efgh1234wxyz", Placeholder: "<2>"}},
		{Secret: sandbox.Secret{Value: "aaaaaaaa", Placeholder: "<3>"}}})
	for text, want := range map[string]string{"abcdefgh1234wxyz": "<1>", "efgh1234wxyzabcdefgh1234": "<2><1>",
		strings.Repeat("a", 100_000): "<3>", "": "", "aaaaaaa": "aaaaaaa", "\x00aaaaaaaa\n": "\x00<3>\n"} {
		if got := strings.Join(pieces(overlapping, text, ""), ""); got != want {
			t.Errorf("%.40q: %.40q, want %q", text, got, want)
		}
		letters := strings.Split(text, "")
		if got := strings.Join(pieces(overlapping, append(letters, "")...), ""); got != want {
			t.Errorf("%.40q in letters: %.40q, want %q", text, got, want)
		}
	}
}

// TestCasesOfLetters: letters beyond ASCII are found in both cases, too.
func TestCasesOfLetters(t *testing.T) {
	const value = "Grüße-Ärger-ñandú-Жук"
	f := newFinder([]rules.Secret{{Secret: sandbox.Secret{Value: value, Placeholder: "<1>"}}})
	for _, text := range []string{value, strings.ToLower(value), strings.ToUpper(value)} {
		for _, text := range []string{text, url.QueryEscape(text), inJSON(text)} {
			if got := strings.Join(pieces(f, text, ""), ""); got != "<1>" {
				t.Errorf("%s: %s", text, got)
			}
		}
	}
}

// TestEncodings: a value is found as encoders of several languages write it.
func TestEncodings(t *testing.T) {
	f := newFinder([]rules.Secret{{Secret: sandbox.Secret{Value: `k/=y"&<>'é()! 𝄞`, Placeholder: "<1>"}}})
	for encoder, text := range map[string]string{
		"Python's json":                  `k/=y\"&<>'\u00e9()! \ud834\udd1e`,
		"PHP's json_encode":              `k\/=y\"&<>'\u00e9()! \ud834\udd1e`,
		"PHP with unescaped characters":  `k\/=y\"&<>'é()! 𝄞`,
		"JSON.stringify":                 `k/=y\"&<>'é()! 𝄞`,
		"Go's json":                      `k/=y\"\u0026\u003c\u003e'é()! 𝄞`,
		"Python's json of a header":      `k/=y\"&<>'\u00c3\u00a9()! \u00f0\u009d\u0084\u009e`,
		"JSON.stringify of a header":     "k/=y\\\"&<>'\u00c3\u00a9()! \u00f0\u009d\u0084\u009e",
		"Gson":                           `k/\u003dy\"\u0026\u003c\u003e\u0027é()! 𝄞`,
		"encodeURIComponent":             `k%2F%3Dy%22%26%3C%3E'%C3%A9()!%20%F0%9D%84%9E`,
		"URLSearchParams":                `k%2F%3Dy%22%26%3C%3E%27%C3%A9%28%29%21+%F0%9D%84%9E`,
		"a text of XML":                  `k/=y"&amp;&lt;&gt;'é()! 𝄞`,
		"an attribute of XML":            `k/=y&quot;&amp;&lt;&gt;&apos;é()! 𝄞`,
		"PHP's htmlspecialchars":         `k/=y&quot;&amp;&lt;&gt;&#039;é()! 𝄞`,
		"Python's html":                  `k/=y&quot;&amp;&lt;&gt;&#x27;é()! 𝄞`,
		"Go's html":                      `k/=y&#34;&amp;&lt;&gt;&#39;é()! 𝄞`,
		"Mustache":                       `k&#x2F;&#x3D;y&quot;&amp;&lt;&gt;&#39;é()! 𝄞`,
		"a text of ElementTree":          `k/=y"&amp;&lt;&gt;'&#233;()! &#119070;`,
		"an attribute of ElementTree":    `k/=y&quot;&amp;&lt;&gt;'&#233;()! &#119070;`,
		"an attribute of Ruby":           `k/=y&quot;&amp;&lt;&gt;'&#xE9;()! &#x1D11E;`,
		"an attribute of HTML":           `k/=y&quot;&amp;<>'é()! 𝄞`,
		"an attribute of canonical XML":  `k/=y&quot;&amp;&lt;>'é()! 𝄞`,
		"ASP.NET Core":                   `k/=y&quot;&amp;&lt;&gt;&#x27;&#xE9;()! &#x1D11E;`,
		"JSTL":                           `k/=y&#034;&amp;&lt;&gt;&#039;é()! 𝄞`,
		"Rack":                           `k&#x2F;=y&quot;&amp;&lt;&gt;&#x27;é()! 𝄞`,
		"Go's url.QueryEscape, in lower": `k%2f%3dy%22%26%3c%3e%27%c3%a9%28%29%21+%f0%9d%84%9e`,
	} {
		if got := strings.Join(pieces(f, `{"a": "`+text+`"}`, ""), ""); got != `{"a": "<1>"}` {
			t.Errorf("%s: %q", encoder, got)
		}
	}
}

// TestLongestValue: a value is found that is as long as the rules accept, if all of it is escaped, in whatever pieces
// it arrives.
func TestLongestValue(t *testing.T) {
	for _, c := range []string{"&", "é", `"`, "/", "~", " ", "𝄞"} {
		value := strings.Repeat(c, rules.MaxEncoded/6/len(c))
		f := newFinder([]rules.Secret{{Secret: sandbox.Secret{Value: value, Placeholder: "<1>"}}})
		for _, read := range rules.Readings(value)[:min(2, len(rules.Readings(value)))] { // in UTF-8
			var json, form, markup strings.Builder
			for _, r := range read {
				for _, unit := range utf16.AppendRune(nil, r) {
					fmt.Fprintf(&json, `\u%04x`, unit)
				}
				for _, b := range []byte(string(r)) {
					fmt.Fprintf(&form, "%%%02X", b)
				}
				fmt.Fprintf(&markup, "&#%d;", r)
			}
			for _, text := range []string{json.String(), form.String(), markup.String()} {
				around := strings.Repeat(`\`, maxHeld)
				got := strings.Join(pieces(f, chunks(around+text+around, 1001)...), "")
				// Two backslashes may begin an escape in an escape. Behind an ampersand they may end one.
				left, right, ok := strings.Cut(got, "<1>")
				if !ok || len(left)+2 < len(around) || len(right)+4 < len(around) ||
					strings.Trim(left+right, `\`) != "" {
					t.Errorf("%d of %q: %d characters of %d, %.12s", len(value), c, len(got), len(text), text)
				}
			}
		}
	}
}

// TestEncodingsOfBase64: so is one with characters of Base64, which encoders of paths and .NET treat in their own
// ways.
func TestEncodingsOfBase64(t *testing.T) {
	f := newFinder([]rules.Secret{{Secret: sandbox.Secret{Value: `ab/cd+ef==&'!é`, Placeholder: "<1>"}}})
	for encoder, text := range map[string]string{
		"Python's quote":             `ab/cd%2Bef%3D%3D%26%27%21%C3%A9`,
		"PHP's rawurlencode":         `ab%2Fcd%2Bef%3D%3D%26%27%21%C3%A9`,
		"encodeURI":                  `ab/cd+ef==&'!%C3%A9`,
		"Go's paths":                 `ab/cd+ef==&%27%21%C3%A9`,
		".NET's JavaScriptEncoder":   `ab/cd\u002Bef==\u0026\u0027!\u00E9`,
		"Flask's tojson":             `ab/cd+ef==\u0026\u0027!\u00e9`,
		"serialize-javascript":       `ab\u002Fcd+ef==&'!é`,
		"Python's json of a header":  `ab/cd+ef==&'!\u00c3\u00a9`,
		".NET of a header":           `ab/cd\u002Bef==\u0026\u0027!\u00C3\u00A9`,
		"PHP's json_encode":          `ab\/cd+ef==&'!\u00e9`,
		"Go's html/template":         `ab/cd&#43;ef==&amp;&#39;!é`,
		"Handlebars":                 `ab/cd+ef&#x3D;&#x3D;&amp;&#x27;!é`,
		"ASP.NET Core":               `ab/cd&#x2B;ef==&amp;&#x27;!&#xE9;`,
		"Rack":                       `ab&#x2F;cd+ef==&amp;&#x27;!é`,
		"a page in ISO-8859-1":       "ab/cd+ef==&'!\xe9",
		"escape of ECMAScript":       `ab/cd+ef%3D%3D%26%27%21%E9`,
		"Dart":                       `ab&#47;cd+ef==&amp;&#39;!é`,
		"a query of Spring":          `ab/cd+ef%3D%3D%26'!%C3%A9`,
		"a form, by URLSearchParams": `ab%2Fcd%2Bef%3D%3D%26%27%21%C3%A9`,
	} {
		if got := strings.Join(pieces(f, `{"a": "`+text+`"}`, ""), ""); got != `{"a": "<1>"}` {
			t.Errorf("%s: %q", encoder, got)
		}
	}
}

// TestEncodingsOfURLs: a value is replaced that has characters on which encoders of URLs and forms differ.
func TestEncodingsOfURLs(t *testing.T) {
	f := newFinder([]rules.Secret{{Secret: sandbox.Secret{Value: `a~b*c(d)!e'f"/g?h=i|j`, Placeholder: "<1>"}}})
	for encoder, text := range map[string]string{
		"PHP's urlencode":      `a%7Eb%2Ac%28d%29%21e%27f%22%2Fg%3Fh%3Di%7Cj`,
		".NET's UrlEncode":     `a%7eb*c(d)!e%27f%22%2fg%3fh%3di%7cj`,
		"a path of Java":       `a~b*c(d)!e'f%22/g%3Fh=i%7Cj`,
		"a path of Node":       `a~b*c(d)!e'f%22/g%3Fh=i|j`,
		"a query of Node":      `a~b*c(d)!e%27f%22/g?h=i|j`,
		"a fragment of Node":   `a~b*c(d)!e'f%22/g?h=i|j`,
		"a user of Node":       `a~b*c(d)!e'f%22%2Fg%3Fh%3Di%7Cj`,
		"a user of Go":         `a~b%2Ac%28d%29%21e%27f%22%2Fg%3Fh=i%7Cj`,
		"a redirect of Django": `a~b*c(d)!e'f%22/g?h=i%7Cj`,
		".NET's UrlEncoder":    `a~b*c(d)!e%27f%22%2Fg%3Fh%3Di%7Cj`,
		"the JSON of Laravel":  `a~b*c(d)!e\u0027f\u0022\/g?h=i|j`,
	} {
		if got := strings.Join(pieces(f, `{"a": "`+text+`"}`, ""), ""); got != `{"a": "<1>"}` {
			t.Errorf("%s: %q", encoder, got)
		}
	}
}

// TestEncodedBase64: the Base64 of a value is replaced where a host escapes it, as in an echo of the scheme Basic.
func TestEncodedBase64(t *testing.T) {
	f := newFinder([]rules.Secret{{Secret: sandbox.Secret{Value: "a?>>~b?>>>~c", Placeholder: "<1>"}}})
	for before := range 3 {
		plain := basic(":::"[:before] + "a?>>~b?>>>~c") // with + and /
		for encoder, text := range map[string]string{
			"JSON.stringify": plain,
			"PHP":            strings.ReplaceAll(plain, "/", `\/`),
			".NET":           strings.ReplaceAll(plain, "+", `\u002B`),
			"ASP.NET Core":   strings.ReplaceAll(plain, "+", "&#x2B;"),
			"Rack":           strings.ReplaceAll(plain, "/", "&#x2F;"),
			"a form":         strings.NewReplacer("/", "%2F", "+", "%2B").Replace(plain),
			"Python's quote": strings.ReplaceAll(plain, "+", "%2B"),
		} {
			got := strings.Join(pieces(f, text, ""), "")
			if left := strings.Replace(got, "<1>", "", 1); len(left) == len(got) || len(left) > len("Basic ")+6 {
				t.Errorf("%s: %q became %q", encoder, text, got)
			}
		}
	}
}

// TestEscapedAfterBase64: an escaped character of Base64 is hidden that has the last bits of a value.
func TestEscapedAfterBase64(t *testing.T) {
	f := newFinder([]rules.Secret{{Secret: sandbox.Secret{Value: "abcdefgo", Placeholder: "<1>"}}})
	text := url.QueryEscape(base64.StdEncoding.EncodeToString([]byte("abcdefgo\xff\xff")))
	if got := strings.Join(pieces(f, text, ""), ""); got != "<1>%2F%2Fw%3D%3D" {
		t.Errorf("%s became %s", text, got)
	}
}

// TestFinderCost: values that begin and end alike, in a text that does too, cost little. Comparing them with it byte by
// byte would take minutes.
func TestFinderCost(t *testing.T) {
	var secrets []rules.Secret
	for i := range 64 {
		secrets = append(secrets, rules.Secret{Secret: sandbox.Secret{Placeholder: "<1>",
			Value: strings.Repeat("a", 8000) + strconv.Itoa(10+i) + strings.Repeat("a", 100)}})
	}
	f := newFinder(secrets)
	text := strings.Repeat("a", 256<<10)
	if got := strings.Join(pieces(f, text, ""), ""); got != text {
		t.Errorf("%d bytes became %d", len(text), len(got))
	}
	if got := strings.Join(pieces(f, text+secrets[63].Value+text, ""), ""); got != text+"<1>"+text {
		t.Errorf("%d bytes became %d", 2*len(text)+len(secrets[63].Value), len(got))
	}
}

// TestFinderMemory: a search holds little, however many values a text contains at each position.
func TestFinderMemory(t *testing.T) {
	var secrets []rules.Secret
	for i := range 64 {
		secrets = append(secrets, rules.Secret{Secret: sandbox.Secret{Value: strings.Repeat("a", 8+i)}})
	}
	f, text := newFinder(secrets), []byte(strings.Repeat("a", cleanSize-7)+`\%41&#97;`)
	f.find(text, 0, len(text), func(span) {})
	s := searchPool.Get().(*search)
	defer searchPool.Put(s)
	if n := cap(s.found) + cap(s.escaped); n > 1000 {
		t.Errorf("%d spans", n)
	}
}

// TestStreamIsNoOracle: how much of an answer is returned, and when, is the same for a text with the beginning of a
// value and for another text of that length.
func TestStreamIsNoOracle(t *testing.T) {
	f := newFinder(twoSecrets(t))
	for _, around := range []string{"", "\n", strings.Repeat("x", 2*maxHeld)} {
		for n := 1; n < len(passValue); n++ {
			guess, other := passValue[:n], strings.Repeat("#", n)
			for range 2 { // the guess comes in one piece, or in two with a pause
				right := pieces(f, around, guess, "", "!"+around, "end")
				wrong := pieces(f, around, other, "", "!"+around, "end")
				for i := range right {
					if len(right[i]) != len(wrong[i]) {
						t.Fatalf("%d characters: %d bytes of piece %d, else %d", n, len(right[i]), i, len(wrong[i]))
					}
				}
				guess, other = guess[:n/2], other[:n/2]
			}
		}
	}
	line := pieces(f, "data: "+passValue+"\n", "data: ", "\n\n", "")
	if len(line[0]) < 10 || line[1] != "" || line[2] != "data: \n\n" {
		t.Errorf("lines are returned as %q", line)
	}
}

// TestFinderTakesTheSameTime: a search takes as long in a text with the end of a value as in other texts. Code
// in the sandbox could otherwise find a value in parts, by answers whose text it chooses.
func TestFinderTakesTheSameTime(t *testing.T) {
	f := newFinder([]rules.Secret{{Secret: sandbox.Secret{Value: "pL7wq9Xz2Rt5Vb8Nm1Kj4Q==", Placeholder: "<1>"}}})
	const size = 16 << 10
	// The shortest of some searches for each text. They alternate: a machine may be slow for some milliseconds.
	durations := func(tails []string, times int) (shortest []time.Duration) {
		for range 20 {
			for i, tail := range tails {
				text := []byte(strings.Repeat(tail, times) + strings.Repeat("x", size-times*len(tail)))
				began := time.Now()
				f.find(text, 0, size, func(span) { t.Errorf("%q is found", tail) })
				took := time.Since(began)
				if len(shortest) == i {
					shortest = append(shortest, took)
				}
				shortest[i] = min(shortest[i], took)
			}
		}
		return shortest
	}
	for end, other := range map[string]string{"m1Kj4Q==": "m1Kj%04d", "4Q%3D%3D": "%02d%%3D%%3D",
		"UtqNFE9P": "m1Kj%04d"} {
		var others []string
		for i := range 20 {
			others = append(others, fmt.Sprintf(other, i))
		}
		for _, times := range []int{1, size / len(end)} {
			took := durations(append(others, end), times)
			d, longest := took[len(others)], slices.Max(took[:len(others)])
			if d > longest*3/2 {
				t.Errorf("%q, %d times, takes %v, and others take %v", end, times, d, longest)
			}
		}
	}
}

// FuzzStream: pieces change nothing, and no value remains.
func FuzzStream(f *testing.F) {
	find := newFinder([]rules.Secret{{Secret: sandbox.Secret{Value: "abcabcab", Placeholder: "<1>"}},
		{Secret: sandbox.Secret{Value: "cabcabxyz", Placeholder: "<2>"}},
		{Secret: sandbox.Secret{Value: `ab\cab/c&%41`, Placeholder: "<3>"}}})
	f.Add("abcabcabcabxyz", 5)
	f.Add(`\\ab\\cab\/c&%41bcab\u002fc%26&%41ab%5ccab%2Fc&#38;%2541`, 7)
	f.Add("YWJjYWJjYWI=ABCABCAB", 3)
	f.Fuzz(func(t *testing.T, text string, size int) {
		whole := pieces(find, text)[0]
		var parts []string
		for rest := text; rest != ""; {
			n := min(len(rest), max(size, 1))
			parts, rest = append(parts, rest[:n]), rest[n:]
		}
		if got := strings.Join(pieces(find, append(parts, "")...), ""); got != whole {
			t.Errorf("%q in pieces of %d: %q, whole %q", text, size, got, whole)
		}
		for _, left := range strings.Split(strings.ToLower(whole), "<1>") {
			if strings.Contains(left, "abcabcab") || strings.Contains(left, "cabcabxyz") {
				t.Errorf("%q: %q", text, whole)
			}
		}
	})
}

// TestHeaders: values are removed from the values and names of headers, once the sandbox may use CPU time, which is
// charged.
func TestHeaders(t *testing.T) {
	secrets := twoSecrets(t)
	ready, spent := errors.New("later"), time.Duration(0)
	c := &cleaner{newFinder(secrets), &turns{Config: &Config{
		Spend: func(d time.Duration) { spent += d },
		Wait:  func(context.Context) error { return ready },
	}}}
	h := http.Header{"X-Echo": {"a " + passValue, basic("u:" + passValue)}, http.CanonicalHeaderKey("x-" +
		"GHP_sec0nd"): {"1"}, "X-" + strings.ToUpper(userValue): {"2"}}
	if err := c.header(t.Context(), h); err != ready || len(h) != 3 || spent != 0 {
		t.Error(err, h, spent)
	}
	ready = nil
	if err := c.header(t.Context(), h); err != nil || spent <= 0 {
		t.Error(err, spent)
	}
	if got := fmt.Sprint(h); strings.Contains(got, passValue) || strings.Contains(got, basic("u:" + passValue)[10:]) ||
		len(h) != 2 || h["X-Echo"][0] != "a "+secrets[1].Placeholder {
		t.Error(got)
	}
}

// TestUncleanedEarlyAnswer: nothing of an interim answer is forwarded if the values in it cannot be replaced, for
// example because the sandbox has left. The hooks of httptrace run in turn, whatever they return.
func TestUncleanedEarlyAnswer(t *testing.T) {
	host := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", passValue)
		w.WriteHeader(http.StatusEarlyHints)
	}))
	defer host.Close()
	c := &cleaner{newFinder(twoSecrets(t)), &turns{Config: &Config{Spend: func(time.Duration) {},
		Wait: func(context.Context) error { return errors.New("it has left") }}}}
	var forwarded []http.Header
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		Got1xxResponse: func(_ int, h textproto.MIMEHeader) error {
			forwarded = append(forwarded, http.Header(h))
			return nil
		}})
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, host.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	if answer, err := (cleaned{host.Client().Transport, func() *cleaner { return c }}).RoundTrip(r); err == nil {
		answer.Body.Close()
		t.Error("the final answer is forwarded")
	}
	if len(forwarded) != 1 || len(forwarded[0]) > 0 {
		t.Errorf("%v is forwarded", forwarded)
	}
}

// BenchmarkStream is the cost of a byte of an answer, with the most secrets.
func BenchmarkStream(b *testing.B) {
	var secrets []rules.Secret
	for i := range 64 {
		secrets = append(secrets, rules.Secret{Secret: sandbox.Secret{Value: fmt.Sprintf("token-%d-%08d", i, i*7919),
			Placeholder: NewPlaceholder("")}})
	}
	f, chunk := newFinder(secrets), []byte(strings.Repeat("an ordinary line of an answer\n", 500))
	b.SetBytes(int64(len(chunk)))
	s := stream{find: f}
	for b.Loop() {
		s.write(chunk, false)
	}
}
