package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/fumehood-dev/fumehood/sandbox"
)

const (
	inventoryFresh   = 10 * time.Minute // installed modules rarely change
	inventoryRetry   = autoFresh        // after a failure, which may be a full queue
	inventoryTimeout = time.Minute      // for all languages; each also has the default limit

	maxInventory  = 1 << 20 // bytes of JSON
	maxModules    = 5000
	maxModuleName = 128 // bytes, of a name or a version
)

// Stocked is a language and its interpreter's inventory, in sandboxes without an image.
type Stocked struct {
	sandbox.Language
	Inventory sandbox.Inventory
	Err       error // why there is no Inventory
}

// stock caches the last inventory of one backend.
type stock struct {
	mu   sync.Mutex // guards all below; held while looking, so that concurrent callers look once
	at   time.Time
	last []Stocked
	keep time.Duration
}

// Stock runs the interpreter of every language on the default backend and returns its inventory, which is cached. These are
// default runs: where this host refuses them, so is the inventory.
func (e *Engine) Stock(ctx context.Context) []Stocked {
	s := &e.stock
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.at.IsZero() && time.Since(s.at) < s.keep {
		return s.last
	}
	// A client that disconnects must not fail the others.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), inventoryTimeout)
	defer cancel()
	s.last, s.keep = make([]Stocked, len(e.config.Languages)), inventoryFresh
	for i, l := range e.config.Languages {
		s.last[i].Language = l
		s.last[i].Inventory, s.last[i].Err = e.inventory(ctx, l)
		if err := s.last[i].Err; err != nil && sandbox.KindOf(err) != sandbox.Unsupported { // what is not installed stays so for a while
			s.keep = inventoryRetry
		}
	}
	s.at = time.Now()
	return s.last
}

func (e *Engine) inventory(ctx context.Context, l sandbox.Language) (sandbox.Inventory, error) {
	if c := l.Compile; c != nil && c.Version != nil {
		return e.compilerVersion(ctx, l)
	}
	result, err := e.Run(ctx, Run{Request: sandbox.Request{Language: l.Name, Code: []byte(l.Inventory)}})
	if err != nil {
		return sandbox.Inventory{}, err
	}
	if result.Status != sandbox.StatusSucceeded || result.Stdout.Dropped > 0 {
		return sandbox.Inventory{}, noInventory(l, fmt.Sprintf("its run ended as %s", result.Status))
	}
	found, err := parseInventory(result.Stdout.Head)
	if err != nil {
		return sandbox.Inventory{}, noInventory(l, err.Error())
	}
	return found, nil
}

// version is a version in what a compiler says of itself.
var version = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\d+(?:\.\d+)+`) })

// compilerVersion asks the first compiler that is there; what code can import besides the standard library is not listed.
func (e *Engine) compilerVersion(ctx context.Context, l sandbox.Language) (sandbox.Inventory, error) {
	for _, program := range l.Compile.Programs {
		result, err := e.Run(ctx, Run{Request: sandbox.Request{Command: append([]string{program}, l.Compile.Version...)}})
		if err != nil {
			return sandbox.Inventory{}, err
		}
		if found := version().Find(result.Stdout.Head); result.Status == sandbox.StatusSucceeded && len(found) <= maxModuleName && found != nil {
			return sandbox.Inventory{Version: string(found), StandardLibrary: true}, nil
		}
	}
	return sandbox.Inventory{}, &sandbox.Error{Kind: sandbox.Unsupported, Op: "start " + l.Name, Msg: "command not found in the sandbox: " + l.Compile.Programs[0],
		Fix: l.Missing.Fix, Hint: sandbox.Hint{Code: sandbox.FixRoot}}
}

func noInventory(l sandbox.Language, why string) error {
	return &sandbox.Error{Kind: sandbox.Unavailable, Op: l.Name, Msg: "cannot list what is installed: " + why}
}

type inventoryError string

func (e inventoryError) Error() string { return "the list " + string(e) }

// parseInventory parses and checks an interpreter's output. The root file system may be hostile.
func parseInventory(text []byte) (found sandbox.Inventory, err error) {
	if len(text) > maxInventory || !utf8.Valid(text) {
		return found, inventoryError("is too long or not text")
	}
	in := json.NewDecoder(bytes.NewReader(text))
	in.DisallowUnknownFields()
	if err := in.Decode(&found); err != nil {
		return sandbox.Inventory{}, inventoryError("is not the JSON that it should be")
	}
	if _, err := in.Token(); err != io.EOF {
		return sandbox.Inventory{}, inventoryError("has something after its end")
	}
	if found.Version == "" {
		return sandbox.Inventory{}, inventoryError("names no version")
	}
	if len(found.Modules) > maxModules {
		return sandbox.Inventory{}, inventoryError("is too long")
	}
	words := []string{found.Version}
	for _, m := range found.Modules {
		words = append(words, m.Name, m.Version)
	}
	for _, word := range words {
		if len(word) > maxModuleName || strings.ContainsFunc(word, func(r rune) bool { return !unicode.IsGraphic(r) }) {
			return sandbox.Inventory{}, inventoryError("has a name or a version that is none")
		}
	}
	return found, nil
}
