package terminal

import (
	"os"

	"golang.org/x/term"
)

// leave ends the modes that a full-screen program may have left: the alternate screen, the mouse, bracketed paste, a
// hidden cursor, application keys, colours (ECMA-48, XTerm Control Sequences).
const leave = "\x1b[?1049l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?2004l\x1b[?25h\x1b[?1l\x1b>\x1b[0m"

// Raw passes all keys of a terminal on as bytes, without echo and signals, until end is called. end also leaves the
// modes of full-screen programs.
func Raw(in, out *os.File) (end func(), err error) {
	state, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return nil, err
	}
	return func() { restore(in, out, state) }, nil
}

func restore(in, out *os.File, state *term.State) {
	_, _ = out.WriteString(leave)
	_ = term.Restore(int(in.Fd()), state) // no further remedy
}

// Size returns the size of a terminal in characters; ok is false for other files.
func Size(f *os.File) (rows, columns int, ok bool) {
	width, height, err := term.GetSize(int(f.Fd()))
	if err != nil || width < 1 || height < 1 {
		return 0, 0, false
	}
	return height, width, true
}
