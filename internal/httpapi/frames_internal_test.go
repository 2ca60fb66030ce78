package httpapi

import (
	"slices"
	"strings"
	"testing"
)

// TestFrames: frames of each form of length are found, however their bytes come.
func TestFrames(t *testing.T) {
	head := func(length ...byte) string { return "\x82" + string(length) + "mask" }
	stream := []byte(head(0x80) + head(0x83) + "abc" + head(0xfe, 1, 0) + strings.Repeat("\x82", 256) +
		head(0xff, 0, 0, 0, 0, 0, 1, 0, 0) + strings.Repeat("\x80", 1<<16) + head(0x80))
	for _, piece := range []int{1, 7, len(stream)} {
		f := new(frames)
		n := 0
		for part := range slices.Chunk(stream, piece) {
			n += f.count(part)
		}
		if n != 5 {
			t.Errorf("in pieces of %d: %d frames", piece, n)
		}
	}
}
