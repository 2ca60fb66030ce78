package repl

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fumehood-dev/fumehood/internal/cli/hostfiles"
	"github.com/fumehood-dev/fumehood/internal/cli/terminal"
)

const (
	maxHistory     = 1000    // lines
	maxHistoryFile = 1 << 20 // bytes
)

// History contains the lines that the user typed, the oldest first. It implements term.History.
type History struct {
	lines []string
	path  string // "" keeps no file
}

// OpenHistory reads the history of a file. An unreadable file counts as empty. Path "" keeps no file, nor does a path
// with a link that code can have made.
func OpenHistory(host hostfiles.Host, path string) *History {
	h := &History{}
	if path == "" {
		return h
	}
	path, err := host.Resolve(path)
	if err != nil {
		return h
	}
	h.path = path
	text, err := host.Read("history", path, maxHistoryFile)
	if err != nil {
		return h
	}
	for line := range strings.Lines(string(text)) {
		h.Add(terminal.VisibleName(strings.TrimRight(line, "\n")))
	}
	return h
}

// Add adds a line, unless it is empty or repeats the last one.
func (h *History) Add(line string) {
	if strings.TrimSpace(line) == "" || len(h.lines) > 0 && h.lines[len(h.lines)-1] == line {
		return
	}
	h.lines = append(h.lines, line)
	h.lines = slices.Delete(h.lines, 0, max(0, len(h.lines)-maxHistory))
}

// Len returns the number of lines.
func (h *History) Len() int { return len(h.lines) }

// At returns a line; 0 is the last.
func (h *History) At(i int) string { return h.lines[len(h.lines)-1-i] }

// Save writes the history to its file, which only the user can read: code contains secrets.
func (h *History) Save() error {
	if h.path == "" || len(h.lines) == 0 {
		return nil
	}
	lines := h.lines
	for len(lines) > 0 && len(strings.Join(lines, "\n"))+1 > maxHistoryFile {
		lines = lines[1:]
	}
	if err := os.MkdirAll(filepath.Dir(h.path), 0o700); err != nil {
		return err
	}
	return hostfiles.Replace(h.path, []byte(strings.Join(lines, "\n")+"\n"), 0o600)
}
