package e2bapi

import (
	"net/http"
	"strings"
	"sync"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/room"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Limits of the metadata of files.
const (
	maxMetadata    = 4 << 10  // bytes of one file's, as most file systems have for extended attributes
	maxAllMetadata = 16 << 20 // bytes of all files, half of it for one owner
	metadataBytes  = 256      // of one file and of one pair, besides their texts
)

// metadataHeader begins the headers with the metadata of a file.
const metadataHeader = "X-Metadata-"

// headerMetadata returns the metadata in the headers of a request, with names in lower case; nil if there are none.
func headerMetadata(h http.Header) (map[string]string, error) {
	var found map[string]string
	size := 0
	for header := range h {
		name, ok := strings.CutPrefix(header, metadataHeader)
		if !ok {
			continue
		}
		value := h.Get(header)
		if name == "" || strings.ContainsFunc(value, func(c rune) bool { return c < ' ' || c > '~' }) {
			return nil, sandbox.Invalidf("metadata", "must have names, and values of printable ASCII")
		}
		if found == nil {
			found = map[string]string{}
		}
		found[strings.ToLower(name)] = value
		size += len(name) + len(value)
	}
	if size > maxMetadata {
		return nil, sandbox.Invalidf("metadata", "has %d bytes; the limit is %d", size, maxMetadata)
	}
	return found, nil
}

// metadata keeps the metadata of files in memory, by the paths of the files: the system call policy has no extended
// attributes, in which E2B keeps them. Its methods are safe for concurrent use.
type metadata struct {
	engine *engine.Engine
	room   *room.Room

	mu        sync.Mutex // guards below
	bySandbox map[sandbox.ID]*files
}

// files are those of a sandbox that have metadata. Each sandbox has its own lock, as it may have many of them.
type files struct {
	owner string
	room  *room.Room

	mu    sync.Mutex                   // guards all below
	byKey map[string]map[string]string // nil once the sandbox has ended
	held  int64                        // of the room
}

func newMetadata(e *engine.Engine) *metadata {
	return &metadata{engine: e, room: room.Halves(maxAllMetadata), bySandbox: map[sandbox.ID]*files{}}
}

// keyOf returns the one path of a file of the workspace, which has two.
func keyOf(file string) string {
	if rest, ok := strings.CutPrefix(file, sandbox.WorkspaceAlias); ok && (rest == "" || rest[0] == '/') {
		return sandbox.Workspace + rest
	}
	return file
}

// sizeOf returns the bytes that the metadata of a file takes.
func sizeOf(key string, values map[string]string) int64 {
	size := metadataBytes + len(key)
	for name, value := range values {
		size += metadataBytes + len(name) + len(value)
	}
	return int64(size)
}

// of returns the files of a sandbox, or nil: none has metadata.
func (m *metadata) of(s *engine.Sandbox) *files {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.bySandbox[s.ID()]
}

// get returns the metadata of a file, which the caller must not change.
func (m *metadata) get(s *engine.Sandbox, file string) map[string]string {
	of := m.of(s)
	if of == nil {
		return nil
	}
	of.mu.Lock()
	defer of.mu.Unlock()
	return of.byKey[keyOf(file)]
}

// set replaces the metadata of a file. Without values it has none.
func (m *metadata) set(s *engine.Sandbox, file string, values map[string]string) error {
	m.mu.Lock()
	ended := m.sweep()
	of := m.bySandbox[s.ID()]
	if of == nil && len(values) > 0 {
		of = &files{owner: s.Owner(), room: m.room, byKey: map[string]map[string]string{}}
		m.bySandbox[s.ID()] = of
	}
	m.mu.Unlock()
	for _, of := range ended { // without mu: one may have many files, which moves still hold
		of.end()
	}
	if of == nil {
		return nil
	}
	of.mu.Lock()
	defer of.mu.Unlock()
	key := keyOf(file)
	of.drop(key)
	if len(values) == 0 {
		return nil
	}
	return of.put(key, values)
}

// sweep removes ended sandboxes, and returns their files, which the caller ends. The caller holds mu.
func (m *metadata) sweep() (ended []*files) {
	for id, of := range m.bySandbox {
		if m.engine.Living(id) == nil {
			ended = append(ended, of)
			delete(m.bySandbox, id)
		}
	}
	return ended
}

// How many files of a sandbox one step of work visits, and how many it moves or drops.
const (
	visitedFiles = 100
	changedFiles = 8
)

// move moves the metadata of a file, or of all files below a folder. It drops the metadata at the new path, and returns
// the steps of work.
func (m *metadata) move(s *engine.Sandbox, from, to string) (steps int) {
	of, old, moved := m.of(s), keyOf(from), keyOf(to)
	if of == nil || old == moved {
		return 0
	}
	of.mu.Lock()
	defer of.mu.Unlock()
	steps = of.dropBelow(moved) + len(of.byKey)/visitedFiles
	below := of.below(old)
	for key, values := range below {
		of.drop(key)
		_ = of.put(moved+key[len(old):], values) // a longer path may be over the limit: then the file has none
	}
	return steps + len(below)/changedFiles
}

// remove drops the metadata of a file, or of all files below a folder, and returns the steps of work.
func (m *metadata) remove(s *engine.Sandbox, file string) (steps int) {
	of := m.of(s)
	if of == nil {
		return 0
	}
	of.mu.Lock()
	defer of.mu.Unlock()
	return of.dropBelow(keyOf(file))
}

// below returns the metadata of a file, or of all files below a folder. The caller holds mu.
func (f *files) below(folder string) map[string]map[string]string {
	found := map[string]map[string]string{}
	for key, values := range f.byKey {
		if rest, ok := strings.CutPrefix(key, folder); ok && (rest == "" || rest[0] == '/') {
			found[key] = values
		}
	}
	return found
}

// put adds the metadata of a file. The caller holds mu.
func (f *files) put(key string, values map[string]string) error {
	size := sizeOf(key, values)
	switch {
	case f.byKey == nil:
		return nil
	case !f.room.Take(f.owner, size):
		return &sandbox.Error{Kind: sandbox.Quota, Msg: "the metadata of files takes too much memory of the server",
			Fix: "remove files that have metadata, or end sandboxes"}
	}
	f.held += size
	f.byKey[key] = values
	return nil
}

// drop drops the metadata of a file. The caller holds mu.
func (f *files) drop(key string) {
	if values, ok := f.byKey[key]; ok {
		size := sizeOf(key, values)
		f.room.Give(f.owner, size)
		f.held -= size
		delete(f.byKey, key)
	}
}

// dropBelow drops the metadata of a file, or of all files below a folder, and returns the steps of work. The caller
// holds mu.
func (f *files) dropBelow(folder string) (steps int) {
	visited, below := len(f.byKey), f.below(folder)
	for key := range below {
		f.drop(key)
	}
	return visited/visitedFiles + len(below)/changedFiles
}

// end drops all metadata, and keeps none.
func (f *files) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.room.Give(f.owner, f.held)
	f.byKey, f.held = nil, 0
}
