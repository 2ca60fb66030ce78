package terminal

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"
)

var sanitizeTests = []struct{ name, in, want string }{
	{"text", "héllo\tworld\r\n", "héllo\tworld\r\n"},
	{"colour", "\x1b[1;31mred\x1b[0m\x1b[K", "\x1b[1;31mred\x1b[0m\x1b[K"},
	{"title", "\x1b]0;owned\x07", "\uFFFD]0;owned\uFFFD"},
	{"clipboard", "\x1b]52;c;cm0gLXJmIC8K\x1b\\", "\uFFFD]52;c;cm0gLXJmIC8K\uFFFD\\"},
	{"report", "\x1b[6n", "\uFFFD[6n"},
	{"cursor", "\x1b[2J\x1b[H", "\uFFFD[2J\uFFFD[H"},
	{"private mode", "\x1b[?1049h", "\uFFFD[?1049h"},
	{"C1 control", "\u009b31m", "\uFFFD31m"},
	{"raw C1 byte", "\x9b31m", "\uFFFD31m"},
	{"bell and NUL", "a\x07\x00b", "a\uFFFD\uFFFDb"},
	{"long sequence", "\x1b[" + strings.Repeat("1;", 100) + "m", "\uFFFD[" + strings.Repeat("1;", 100) + "m"},
}

// TestSanitize writes each text whole and byte by byte: where it is cut must not matter.
func TestSanitize(t *testing.T) {
	for _, tt := range sanitizeTests {
		for _, size := range []int{len(tt.in), 1, 3} {
			var out bytes.Buffer
			w := &sanitizer{w: &out}
			for rest := tt.in; rest != ""; {
				n := min(size, len(rest))
				if got, err := w.Write([]byte(rest[:n])); got != n || err != nil {
					t.Fatalf("%s: wrote %d, %v", tt.name, got, err)
				}
				rest = rest[n:]
			}
			if out.String() != tt.want {
				t.Errorf("%s in pieces of %d: got %q, want %q", tt.name, size, out.String(), tt.want)
			}
		}
	}
}

func FuzzSanitize(f *testing.F) {
	for _, tt := range sanitizeTests {
		f.Add([]byte(tt.in), 2)
	}
	f.Fuzz(func(t *testing.T, in []byte, cut int) {
		cut = min(max(cut, 0), len(in))
		var out bytes.Buffer
		w := &sanitizer{w: &out}
		w.Write(in[:cut])
		w.Write(in[cut:])
		if len(w.held) > maxSequence {
			t.Errorf("%d bytes are held back", len(w.held))
		}
		text := out.String()
		if !utf8.ValidString(text) {
			t.Errorf("not UTF-8: %q", text)
		}
		for i, c := range text {
			if c == 0x1b && !strings.HasPrefix(text[i:], "\x1b[") {
				t.Errorf("an escape went through: %q", text[i:])
			}
			if c < 0x20 && !strings.ContainsRune("\n\r\t\b\x1b", c) || c >= 0x7f && c < 0xa0 {
				t.Errorf("control %#x went through", c)
			}
		}
	})
}
