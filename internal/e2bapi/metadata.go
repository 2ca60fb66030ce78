package e2bapi

import (
	"maps"
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

	mu        sync.Mutex // guards all below
	bySandbox map[sandbox.ID]files
}

// files are those of a sandbox that have metadata, by their keys.
type files struct {
	owner string
	byKey map[string]map[string]string
}

func newMetadata(e *engine.Engine) *metadata {
	return &metadata{engine: e, room: room.Halves(maxAllMetadata), bySandbox: map[sandbox.ID]files{}}
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

// get returns the metadata of a file, which the caller must not change.
func (m *metadata) get(s *engine.Sandbox, file string) map[string]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.bySandbox[s.ID()].byKey[keyOf(file)]
}

// set replaces the metadata of a file. Without values it has none.
func (m *metadata) set(s *engine.Sandbox, file string, values map[string]string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sweep()
	key := keyOf(file)
	m.drop(s.ID(), key)
	if len(values) == 0 {
		return nil
	}
	return m.put(s, key, values)
}

// move moves the metadata of a file, or of all files below a folder. It drops the metadata at the new path.
func (m *metadata) move(s *engine.Sandbox, from, to string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	old, moved := keyOf(from), keyOf(to)
	if old == moved {
		return
	}
	m.dropBelow(s.ID(), moved)
	for key, values := range maps.Clone(m.bySandbox[s.ID()].byKey) {
		if rest, ok := below(key, old); ok {
			m.drop(s.ID(), key)
			_ = m.put(s, moved+rest, values) // a longer path may be over the limit: then the file has none
		}
	}
}

// remove drops the metadata of a file, or of all files below a folder.
func (m *metadata) remove(s *engine.Sandbox, file string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dropBelow(s.ID(), keyOf(file))
}

// below reports whether a path is that of a folder or of something in it, and returns the rest of the path.
func below(key, folder string) (rest string, ok bool) {
	rest, ok = strings.CutPrefix(key, folder)
	return rest, ok && (rest == "" || rest[0] == '/')
}

func (m *metadata) put(s *engine.Sandbox, key string, values map[string]string) error {
	if !m.room.Take(s.Owner(), sizeOf(key, values)) {
		return &sandbox.Error{Kind: sandbox.Quota, Msg: "the metadata of files takes too much memory of the server",
			Fix: "remove files that have metadata, or end sandboxes"}
	}
	of := m.bySandbox[s.ID()]
	if of.byKey == nil {
		of = files{s.Owner(), map[string]map[string]string{}}
		m.bySandbox[s.ID()] = of
	}
	of.byKey[key] = values
	return nil
}

func (m *metadata) dropBelow(id sandbox.ID, folder string) {
	for key := range m.bySandbox[id].byKey {
		if _, ok := below(key, folder); ok {
			m.drop(id, key)
		}
	}
}

func (m *metadata) drop(id sandbox.ID, key string) {
	of := m.bySandbox[id]
	if values, ok := of.byKey[key]; ok {
		m.room.Give(of.owner, sizeOf(key, values))
		delete(of.byKey, key)
	}
}

// sweep drops the metadata of ended sandboxes.
func (m *metadata) sweep() {
	for id, of := range m.bySandbox {
		if m.engine.Living(id) != nil {
			continue
		}
		for key := range of.byKey {
			m.drop(id, key)
		}
		delete(m.bySandbox, id)
	}
}
