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

	"github.com/fumehood-dev/fumehood/internal/room"
	"github.com/fumehood-dev/fumehood/sandbox"
)

const (
	surveyFresh   = 10 * time.Minute // installed modules rarely change
	surveyRetry   = autoFresh        // after a failure, which may be a full queue
	surveyTimeout = time.Minute      // for all languages; each also has the default limit

	maxSurvey     = 256 << 10 // bytes of JSON
	maxKept       = 512 << 10 // bytes of the surveys of an image that are cached
	maxModules    = 5000
	maxModuleName = 128 // bytes, of a name or a version
)

// Surveyed is a language with the survey of its interpreter in the sandboxes of one root.
type Surveyed struct {
	sandbox.Language
	Survey sandbox.LanguageSurvey
	Err    error // why there is no Survey
}

// maxSurveys bounds the roots of images whose survey is cached.
const maxSurveys = 16

// surveys caches the last survey of each root.
type surveys struct {
	turns   *room.Room // one image of an owner at a time: its interpreters decide how much is held meanwhile
	host    surveyCache
	mu      sync.Mutex // guards byImage
	byImage map[surveyKey]*surveyCache
}

// surveyKey identifies the root of an image for an owner. Images with the same files may have other variables.
type surveyKey struct{ owner, backend, digest, settings string }

func surveyKeyOf(owner, backend string, root *sandbox.Root) surveyKey {
	return surveyKey{owner, backend, root.Digest, root.Settings}
}

// surveyCache caches the last survey of one root.
type surveyCache struct {
	mu   sync.Mutex // guards all below; held while looking, so that concurrent callers look once
	at   time.Time
	last []Surveyed
	keep time.Duration
}

// of returns the cache of an image. A new one may take the place of another of the owner with the most.
func (s *surveys) of(key surveyKey) *surveyCache {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.byImage[key]; c != nil {
		return c
	}
	if s.byImage == nil {
		s.byImage = map[surveyKey]*surveyCache{}
	}
	if len(s.byImage) >= maxSurveys { // it ends with its callers
		delete(s.byImage, s.displaced())
	}
	c := &surveyCache{}
	s.byImage[key] = c
	return c
}

// displaced returns an image of the owner with the most. The caller holds mu.
func (s *surveys) displaced() (key surveyKey) {
	each := map[string]int{}
	for k := range s.byImage {
		if each[k.owner]++; each[k.owner] > each[key.owner] || key.owner == k.owner {
			key = k
		}
	}
	return key
}

// Surveys runs the interpreter of every language on the default backend and returns its survey, which is cached. These
// are default runs: where this host refuses them, so is the survey. With an image, they are runs of an owner on it;
// errors are those of such a run.
func (e *Engine) Surveys(ctx context.Context, owner, image string) ([]Surveyed, error) {
	run, s := OneShot{WithoutStart: true}, &e.surveys.host
	if image != "" {
		run.Owner, run.Spec.Root.Image = owner, image
		p, err := e.resolve(OneShot{Owner: owner, Spec: run.Spec, Request: sandbox.Request{Command: []string{"true"}}})
		if err == nil {
			err = e.choose(ctx, p, true)
		}
		if err != nil {
			return nil, err
		}
		if !e.surveys.turns.Wait(ctx, owner, 1, surveyTimeout) {
			return nil, &sandbox.Error{Kind: sandbox.Busy, Op: "languages", Err: context.Cause(ctx),
				Msg: "other images are examined", Fix: "try again"}
		}
		defer e.surveys.turns.Give(owner, 1)
		s = e.surveys.of(surveyKeyOf(owner, p.backend.Name(), &p.Spec.Root))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.at.IsZero() && time.Since(s.at) < s.keep {
		return s.last, nil
	}
	// A client that disconnects must not fail the others.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), surveyTimeout)
	defer cancel()
	s.last, s.keep = make([]Surveyed, len(e.config.Languages)), surveyFresh
	for i, l := range e.config.Languages {
		s.last[i].Language = l
		s.last[i].Survey, s.last[i].Err = e.surveyLanguage(ctx, l, run)
		if err := s.last[i].Err; err != nil && sandbox.KindOf(err) != sandbox.Unsupported {
			// a missing interpreter is rarely installed soon
			s.keep = surveyRetry
		}
	}
	found := s.last
	if s.at = time.Now(); image != "" && sizeOf(found) > maxKept {
		s.at, s.last = time.Time{}, nil
	}
	return found, nil
}

// sizeOf returns about how many bytes surveys take.
func sizeOf(list []Surveyed) (bytes int) {
	const perModule = 2 * 16 // of its two texts
	for i := range list {
		for _, m := range list[i].Survey.Modules {
			bytes += perModule + len(m.Name) + len(m.Version)
		}
	}
	return bytes
}

// surveyLanguage asks the interpreter of a language, by runs like run.
func (e *Engine) surveyLanguage(ctx context.Context, l sandbox.Language, run OneShot) (sandbox.LanguageSurvey, error) {
	if c := l.Compile; c != nil && c.Version != nil {
		return e.compilerVersion(ctx, l, run)
	}
	run.Request = sandbox.Request{Language: l.Name, Code: []byte(l.Survey)}
	result, err := e.Run(ctx, run)
	if err != nil {
		return sandbox.LanguageSurvey{}, err
	}
	if result.Status != sandbox.StatusSucceeded || result.Stdout.Dropped > 0 {
		return sandbox.LanguageSurvey{}, noSurvey(l, fmt.Sprintf("its run ended as %s", result.Status))
	}
	found, err := parseSurvey(result.Stdout.Head)
	if err != nil {
		return sandbox.LanguageSurvey{}, noSurvey(l, err.Error())
	}
	return found, nil
}

// version matches a version in the output of a compiler.
var version = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\d+(?:\.\d+)+`) })

// compilerVersion asks the first compiler that is there; what code can import besides the standard library is not
// listed.
func (e *Engine) compilerVersion(ctx context.Context, l sandbox.Language, run OneShot) (sandbox.LanguageSurvey, error) {
	missing := error(&sandbox.Error{
		Kind: sandbox.Unsupported, Op: "start " + l.Name, Msg: "command not found in the sandbox: " +
			l.Compile.Programs[0],
		Fixes: installing(&l)})
	for _, program := range l.Compile.Programs {
		run.Request = sandbox.Request{Command: append([]string{program}, l.Compile.Version...)}
		result, err := e.Run(ctx, run)
		if err != nil {
			return sandbox.LanguageSurvey{}, err
		}
		if found := version().Find(result.Stdout.Head); result.Status == sandbox.StatusSucceeded &&
			len(found) <= maxModuleName && found != nil {
			return sandbox.LanguageSurvey{Version: string(found), StandardLibrary: true}, nil
		}
		if !lacksProgram(result) { // the host may be busy
			missing = noSurvey(l, fmt.Sprintf("%s ended as %s", program, result.Status))
		}
	}
	return sandbox.LanguageSurvey{}, missing
}

func noSurvey(l sandbox.Language, why string) error {
	return &sandbox.Error{Kind: sandbox.Unavailable, Op: l.Name, Msg: "cannot list what is installed: " + why}
}

type surveyError string

func (e surveyError) Error() string { return "the list " + string(e) }

// parseSurvey parses and checks an interpreter's output. The root file system may be hostile.
func parseSurvey(text []byte) (found sandbox.LanguageSurvey, err error) {
	if len(text) > maxSurvey || !utf8.Valid(text) {
		return found, surveyError("is too long or not text")
	}
	in := json.NewDecoder(bytes.NewReader(text))
	in.DisallowUnknownFields()
	if err := in.Decode(&found); err != nil {
		return sandbox.LanguageSurvey{}, surveyError("is not valid JSON")
	}
	if _, err := in.Token(); err != io.EOF {
		return sandbox.LanguageSurvey{}, surveyError("has data after its end")
	}
	if found.Version == "" {
		return sandbox.LanguageSurvey{}, surveyError("names no version")
	}
	if len(found.Modules) > maxModules {
		return sandbox.LanguageSurvey{}, surveyError("is too long")
	}
	words := []string{found.Version}
	for _, m := range found.Modules {
		words = append(words, m.Name, m.Version)
	}
	for _, word := range words {
		if len(word) > maxModuleName || strings.ContainsFunc(word, func(r rune) bool { return !unicode.IsGraphic(r) }) {
			return sandbox.LanguageSurvey{}, surveyError("has an invalid name or version")
		}
	}
	return found, nil
}
