package main

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	maxHistory     = 1000    // lines
	maxHistoryFile = 1 << 20 // bytes
)

// history holds the lines that were typed, the oldest first, for term.Terminal.
type history struct {
	lines []string
	path  string // of its file; "" if the user has no home
}

// openHistory reads the history of a language. One that cannot be read is empty.
func (a *app) openHistory(language string) *history {
	h := &history{}
	dir, ok := a.userDir("XDG_STATE_HOME", filepath.Join(".local", "state"))
	if !ok {
		return h
	}
	h.path = filepath.Join(dir, "history-"+language)
	text, err := a.readNamed(h.path, maxHistoryFile, "")
	if err != nil {
		return h
	}
	for line := range strings.Lines(string(text)) {
		h.Add(visibleName(strings.TrimRight(line, "\n")))
	}
	return h
}

// Add adds a line, unless it is empty or the last one again.
func (h *history) Add(line string) {
	if strings.TrimSpace(line) == "" || len(h.lines) > 0 && h.lines[len(h.lines)-1] == line {
		return
	}
	h.lines = append(h.lines, line)
	h.lines = slices.Delete(h.lines, 0, max(0, len(h.lines)-maxHistory))
}

// Len returns the number of lines.
func (h *history) Len() int { return len(h.lines) }

// At returns a line; 0 is the last.
func (h *history) At(i int) string { return h.lines[len(h.lines)-1-i] }

// save writes the history to its file, which only the user can read: code has secrets in it.
func (h *history) save() error {
	if h.path == "" || len(h.lines) == 0 {
		return nil
	}
	lines := h.lines
	for size := 0; len(lines) > 0; lines = lines[1:] {
		if size = len(strings.Join(lines, "\n")) + 1; size <= maxHistoryFile {
			break
		}
	}
	if err := os.MkdirAll(filepath.Dir(h.path), 0o700); err != nil {
		return err
	}
	temporary := h.path + "-" + rand.Text()
	if err := os.WriteFile(temporary, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		return err
	}
	if err := os.Rename(temporary, h.path); err != nil {
		_ = os.Remove(temporary)
		return err
	}
	return nil
}
