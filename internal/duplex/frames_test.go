package duplex_test

import (
	"strings"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/internal/duplex"
)

const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" // RFC 9113, section 3.4

// headers returns a frame with a part of a head.
func headers(kind, flags byte, part string) string {
	return string([]byte{0, byte(len(part) >> 8), byte(len(part)), kind, flags, 0, 0, 0, 1}) + part
}

// TestFrames: the fields of heads are reported in whatever pieces and frames they come, with padding and priorities.
func TestFrames(t *testing.T) {
	const last, padded, priority = 4, 8, 32
	sent := preface + headers(duplex.FrameHeaders, last, "\x84") + headers(0, last, "\x84\x84") +
		headers(duplex.FrameHeaders, padded|priority, "\x0212345\x84\x84\xff\xff") +
		headers(duplex.FrameContinuation, last, "\x84")
	var one time.Duration
	for size := 1; size <= len(sent); size++ {
		var all []time.Duration
		f := &duplex.Frames{Most: 1 << 10, OnFields: func(d time.Duration) { all = append(all, d) }}
		for rest := sent; rest != ""; {
			n := min(size, len(rest))
			if !f.Follow([]byte(rest[:n])) {
				t.Fatalf("in pieces of %d bytes: not HTTP/2", size)
			}
			rest = rest[n:]
		}
		if one = all[0]; len(all) != 4 || all[3] != one || one == 0 {
			t.Errorf("in pieces of %d bytes: %v", size, all)
		}
	}
	if f := (&duplex.Frames{}); f.Follow([]byte("PRI * HTTP/2.0\r\n\r\nGET / HTTP/1.1\r\n")) {
		t.Error("HTTP/1 was taken for HTTP/2")
	}
}

// TestFieldsOfFrames: a byte that refers to an earlier field is reported as that field, up to the size of a head. A
// head that net/http could not decode ends the connection.
func TestFieldsOfFrames(t *testing.T) {
	var work time.Duration
	f := &duplex.Frames{Most: 32 << 10, OnFields: func(d time.Duration) { work += d }}
	f.Follow([]byte(preface))
	follow := func(block string) time.Duration {
		work = 0
		if !f.Follow([]byte(headers(duplex.FrameHeaders, 4, block))) {
			t.Fatal("the head ends the connection")
		}
		return work
	}
	var each []time.Duration
	for _, name := range []string{"x", "trailer"} {
		first := follow("\x40" + string(byte(len(name))) + name + "\x7f\xa1\x1e" + strings.Repeat(",", 4000))
		if got := follow("\xbe\xbe"); got != 2*first {
			t.Errorf("%s: %s for two references to a field of %s", name, got, first)
		}
		if got := follow(strings.Repeat("\xbe", 1000)); got > 10*first || got < 8*first {
			t.Errorf("%s: %s for a head that is too long", name, got)
		}
		each = append(each, first)
	}
	if each[1] < 2*each[0] {
		t.Errorf("%s, and %s for names of trailers", each[0], each[1])
	}
	if f.Follow([]byte(headers(duplex.FrameHeaders, 4, "\xff\xff"))) {
		t.Error("half a field is read")
	}
}
