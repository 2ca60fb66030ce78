package sniff

import (
	"errors"
	"regexp"
	"strings"
	"testing"
)

// The lines that isRequestLine and isOtherLine must find.
var (
	requestLine = regexp.MustCompile(`^[ \t]*[!#$%&'*+.^_|~0-9a-zA-Z` + "`" + `-]+[ \t].*[ \t]` +
		`(?i:HTTP)/[0-9.]+[ \t\r]*$`)
	otherLine = regexp.MustCompile(`^[ \t]*[a-zA-Z_-]+[ \t]+[^ \t]+[ \t]+[a-zA-Z]+/[0-9]+\.[0-9]+[ \t\r]*$`)
)

// FuzzLines: the first lines of requests are found as these expressions find them.
func FuzzLines(f *testing.F) {
	for _, line := range []string{"GET / HTTP/1.1\r", " get\tx y http/1. \t\r", "GET  HTTP/1.1", "GET HTTP/1.1",
		"G / HTTP/", "/ / HTTP/1.1", "OPTIONS rtsp://a/b RTSP/1.0\r", "a-B_ \xff x/1.2", "a b c x/1.2", "a b x/1.",
		"a b x1/1.2", "a b /1.2", "a b\r x/1.2", "\ta  b\t x/1.2", "\r", "", " "} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		if strings.Contains(line, "\n") {
			return
		}
		if got, want := isRequestLine([]byte(line)), requestLine.MatchString(line); got != want {
			t.Errorf("isRequestLine(%q) is %v", line, got)
		}
		if got, want := isOtherLine([]byte(line)), otherLine.MatchString(line); got != want {
			t.Errorf("isOtherLine(%q) is %v", line, got)
		}
	})
}

// TestOpenBeginning: the first bytes of a connection leave its kind open only up to a bound, whatever they are.
func TestOpenBeginning(t *testing.T) {
	for begin, want := range map[string]bool{"\r\n": true, "\n": true, "\r\nGET ": true, "GET ": true, "GET": false} {
		b := []byte(strings.Repeat(begin, 1+MaxFirst/len(begin)))
		if begin == "GET " || begin == "\r\nGET " { // the rest is of the same line
			b = []byte(begin + strings.Repeat("x", MaxFirst))
		}
		if _, err := LooksLikeRequest(b[:MaxFirst]); !errors.Is(err, ErrMore) {
			t.Errorf("%q...: %v within the bound", begin, err)
		}
		if got, err := LooksLikeRequest(b); err != nil || got != want {
			t.Errorf("%q...: %v, %v past the bound", begin, got, err)
		}
	}
}

// TestLongDisguise: a request behind another first line is found however long its own is, and in whatever parts it
// comes.
func TestLongDisguise(t *testing.T) {
	long := strings.Repeat("a", MaxFirst)
	for sent, want := range map[string]bool{"PING\r\nGET /" + long + " HTTP/1.1\r\n": true,
		strings.Repeat(" ", MaxFirst) + "GET / HTTP/1.1\r\n": true, "PING\r\n" + long + "\r\n": false,
		"\x00 " + long + long + "\r\n": false} {
		for _, size := range []int{1000, len(sent)} {
			var d Disguise
			var err error
			for rest := sent; rest != "" && err == nil; rest = rest[min(size, len(rest)):] {
				err = d.Client([]byte(rest[:min(size, len(rest))]))
			}
			if errors.Is(err, ErrDisguised) != want {
				t.Errorf("%.20q... by %d: %v", sent, size, err)
			}
		}
	}
}
