package terminal

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"

	"golang.org/x/term"
)

// LineReader reads lines of input.
type LineReader interface {
	// ReadLine returns the next line without its end, and whether it comes from a file or a paste. Its error is io.EOF
	// at the end of the input and ErrInterrupted after Control-C.
	ReadLine(ctx context.Context, prompt string) (line string, pasted bool, err error)

	// Hush makes a terminal show nothing of what the user types, until the returned function is called: it would stand
	// in the output. It begins the next line. Control-C remains a signal.
	Hush() (end func())
}

// ErrInterrupted reports Control-C while the user typed a line.
var ErrInterrupted = errors.New("the line was interrupted")

// piped reads lines from a file or pipe, and shows no prompt.
type piped struct{ lines *bufio.Scanner }

// NewPiped returns a reader of lines of at most longest bytes from a file or pipe.
func NewPiped(in io.Reader, longest int) LineReader {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, longest)
	return &piped{lines}
}

func (p *piped) Hush() (end func()) { return func() {} }

func (p *piped) ReadLine(ctx context.Context, _ string) (string, bool, error) {
	line, err := Await(ctx, func() (string, error) {
		if p.lines.Scan() {
			return p.lines.Text(), nil
		}
		if err := p.lines.Err(); err != nil {
			return "", err
		}
		return "", io.EOF
	})
	return line, true, err
}

// Await returns the result of read. When ctx ends, it abandons the read, which may never return: the program exits
// then.
func Await[T any](ctx context.Context, read func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := read()
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}

// editor reads lines from a terminal, with editing, history and completion.
type editor struct {
	terminal *term.Terminal
	keys     *keys
	in, out  *os.File
}

// CompleteFunc returns the names that fit at the cursor of a line. Each replaces the line from start to the cursor.
type CompleteFunc func(line string, cursor int) (start int, names []string)

// NewEditor returns a reader of lines from a terminal.
func NewEditor(in, out *os.File, history term.History, complete CompleteFunc) LineReader {
	e := &editor{keys: &keys{in: in}, in: in, out: out}
	e.terminal = term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{e.keys, out}, "")
	e.terminal.History = history
	e.terminal.AutoCompleteCallback = func(line string, cursor int, key rune) (string, int, bool) {
		if key != '\t' {
			return "", 0, false
		}
		line, cursor = e.complete(line, cursor, complete)
		return line, cursor, true
	}
	return e
}

// ReadLine reads in raw mode. Between lines the terminal is in its former mode, so that Control-C is a signal again
// while code runs.
func (e *editor) ReadLine(ctx context.Context, prompt string) (line string, pasted bool, err error) {
	state, err := term.MakeRaw(int(e.in.Fd()))
	if err != nil {
		return "", false, err
	}
	defer func() { _ = term.Restore(int(e.in.Fd()), state) }() // no further remedy
	e.terminal.SetBracketedPasteMode(true)                     // the terminal then marks pasted text
	defer e.terminal.SetBracketedPasteMode(false)
	if width, height, err := term.GetSize(int(e.out.Fd())); err == nil && width > 0 && height > 0 {
		_ = e.terminal.SetSize(width, height)
	}
	e.terminal.SetPrompt(prompt)
	line, err = Await(ctx, e.terminal.ReadLine)
	if e.keys.interrupted.Swap(false) {
		return "", false, ErrInterrupted
	}
	if errors.Is(err, io.EOF) {
		fmt.Fprint(e.out, "\r\n")
	}
	if pasted = errors.Is(err, term.ErrPasteIndicator); pasted {
		err = nil
	}
	return line, pasted, err
}

func (e *editor) Hush() (end func()) {
	state, err := term.GetState(int(e.in.Fd()))
	if err != nil || hush(int(e.in.Fd())) != nil {
		return func() {}
	}
	return func() { _ = term.Restore(int(e.in.Fd()), state) } // no further remedy
}

const (
	tabWidth = 4
	maxNames = 60 // candidates that are listed
)

// complete inserts the common prefix of all fitting names, or lists the names if the line has that prefix already.
func (e *editor) complete(line string, cursor int, complete CompleteFunc) (string, int) {
	before, after := line[:cursor], line[cursor:]
	if strings.TrimSpace(before) == "" {
		return before + strings.Repeat(" ", tabWidth) + after, cursor + tabWidth
	}
	start, names := complete(line, cursor)
	names = harmless(names)
	if len(names) == 0 || start < 0 || start > cursor {
		return line, cursor
	}
	common := names[0]
	for _, name := range names {
		for !strings.HasPrefix(name, common) {
			common = common[:len(common)-1]
		}
	}
	common = strings.ToValidUTF8(common, "")
	if len(common) > cursor-start {
		return line[:start] + common + after, start + len(common)
	}
	if len(names) > 1 {
		text := strings.Join(names[:min(len(names), maxNames)], "  ")
		if more := len(names) - maxNames; more > 0 {
			text += fmt.Sprintf("  and %d more", more)
		}
		fmt.Fprintln(e.terminal, text)
	}
	return line, cursor
}

// harmless removes names that could control the terminal: they come from the sandbox.
func harmless(names []string) []string {
	var kept []string
	for _, name := range names {
		if name != "" && VisibleName(name) == name {
			kept = append(kept, name)
		}
	}
	return kept
}

// keys reads keys from a terminal in raw mode. Package term treats Control-C as the end of the file; here it clears the
// line and ends it.
type keys struct {
	in          io.Reader
	rest        []byte
	interrupted atomic.Bool
}

const (
	controlC = 0x03
	clearing = "\x01\x0b\r" // to the start of the line, delete to its end, enter
)

func (k *keys) Read(p []byte) (int, error) {
	if len(k.rest) == 0 {
		var buf [256]byte
		n, err := k.in.Read(buf[:])
		if err != nil {
			return 0, err
		}
		k.rest = buf[:n]
		if bytes.IndexByte(k.rest, controlC) >= 0 { // drop the keys before and after it too
			k.interrupted.Store(true)
			k.rest = []byte(clearing)
		}
	}
	n := copy(p, k.rest)
	k.rest = k.rest[n:]
	return n, nil
}
