package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/term"
)

// typed reads lines for repl.
type typed interface {
	// line returns the next line without its end, and whether it is one of a file or a paste. Errors: io.EOF, errLineInterrupted.
	line(ctx context.Context, prompt string) (line string, pasted bool, err error)
}

// errLineInterrupted is Control-C while a line was typed.
var errLineInterrupted = errors.New("the line was interrupted")

// piped reads lines from a file or pipe, and shows no prompt.
type piped struct{ lines *bufio.Scanner }

func newPiped(in io.Reader) *piped {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxStatement)
	return &piped{lines}
}

func (p *piped) line(ctx context.Context, _ string) (string, bool, error) {
	line, err := readAside(ctx, func() (string, error) {
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

// readAside abandons a read when ctx ends: it may never end, and we exit then.
func readAside(ctx context.Context, read func() (string, error)) (string, error) {
	type outcome struct {
		line string
		err  error
	}
	done := make(chan outcome, 1)
	go func() {
		line, err := read()
		done <- outcome{line, err}
	}()
	select {
	case o := <-done:
		return o.line, o.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// editor reads lines from a terminal, with editing, history and completion.
type editor struct {
	terminal *term.Terminal
	keys     *keys
	in, out  *os.File
}

// completeFunc returns names that fit at the cursor of a line; each replaces the line from start to the cursor.
type completeFunc func(line string, cursor int) (start int, names []string)

func newEditor(in, out *os.File, h *history, complete completeFunc) *editor {
	e := &editor{keys: &keys{in: in}, in: in, out: out}
	e.terminal = term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{e.keys, out}, "")
	e.terminal.History = h
	e.terminal.AutoCompleteCallback = func(line string, cursor int, key rune) (string, int, bool) {
		if key != '\t' {
			return "", 0, false
		}
		line, cursor = e.complete(line, cursor, complete)
		return line, cursor, true
	}
	return e
}

// line reads one line in raw mode. Between lines the terminal is as it was, so that Control-C is a signal again while code runs.
func (e *editor) line(ctx context.Context, prompt string) (line string, pasted bool, err error) {
	state, err := term.MakeRaw(int(e.in.Fd()))
	if err != nil {
		return "", false, err
	}
	defer func() { _ = term.Restore(int(e.in.Fd()), state) }() // nothing more can be done
	e.terminal.SetBracketedPasteMode(true)                     // the terminal then marks what is pasted
	defer e.terminal.SetBracketedPasteMode(false)
	if width, height, err := term.GetSize(int(e.out.Fd())); err == nil && width > 0 && height > 0 {
		_ = e.terminal.SetSize(width, height)
	}
	e.terminal.SetPrompt(prompt)
	line, err = readAside(ctx, e.terminal.ReadLine)
	if e.keys.interrupted.Swap(false) {
		return "", false, errLineInterrupted
	}
	if errors.Is(err, io.EOF) {
		fmt.Fprint(e.out, "\r\n")
	}
	if pasted = errors.Is(err, term.ErrPasteIndicator); pasted {
		err = nil
	}
	return line, pasted, err
}

const (
	tabWidth   = 4
	shownNames = 60
)

// complete puts in what all fitting names begin with, or lists the names if that is nothing new.
func (e *editor) complete(line string, cursor int, complete completeFunc) (string, int) {
	before, after := line[:cursor], line[cursor:]
	if strings.TrimSpace(before) == "" {
		return before + strings.Repeat(" ", tabWidth) + after, cursor + tabWidth
	}
	start, names := complete(line, cursor)
	names = plainNames(names)
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
		shown := names[:min(len(names), shownNames)]
		text := strings.Join(shown, "  ")
		if more := len(names) - len(shown); more > 0 {
			text += fmt.Sprintf("  and %d more", more)
		}
		fmt.Fprintln(e.terminal, text)
	}
	return line, cursor
}

// plainNames leaves out names that could control the terminal: they come from the sandbox.
func plainNames(names []string) []string {
	var plain []string
	for _, name := range names {
		if name != "" && visibleName(name) == name {
			plain = append(plain, name)
		}
	}
	return plain
}

// keys reads keys from a terminal in raw mode. Package term takes Control-C for the end of the file; here it empties the line and ends it.
type keys struct {
	in          io.Reader
	rest        []byte
	interrupted atomic.Bool
}

const (
	controlC = 0x03
	emptied  = "\x01\x0b\r" // to the start of the line, delete to its end, enter
)

func (k *keys) Read(p []byte) (int, error) {
	if len(k.rest) == 0 {
		var buf [256]byte
		n, err := k.in.Read(buf[:])
		if err != nil {
			return 0, err
		}
		k.rest = buf[:n]
		if at := strings.IndexByte(string(k.rest), controlC); at >= 0 { // what was typed before and after it is dropped too
			k.interrupted.Store(true)
			k.rest = []byte(emptied)
		}
	}
	n := copy(p, k.rest)
	k.rest = k.rest[n:]
	return n, nil
}

// completeTimeout limits the wait for names while somebody types.
const completeTimeout = 2 * time.Second
