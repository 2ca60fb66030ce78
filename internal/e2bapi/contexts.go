package e2bapi

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// contextInfo describes a context; the SDKs need all three fields.
type contextInfo struct {
	ID       string `json:"id"`
	Language string `json:"language"`
	Dir      string `json:"cwd"`
}

func showContext(c engine.ContextInfo) contextInfo {
	return contextInfo{ID: c.Name, Language: c.Language, Dir: c.Dir}
}

// listContexts is GET /contexts.
func (f *face) listContexts(w *httpd.Response, _ *http.Request, s *engine.Sandbox) error {
	var list []contextInfo
	for _, c := range s.Info().Contexts {
		list = append(list, showContext(c))
	}
	var idle []contextInfo
	for _, language := range defaultContexts {
		if !slices.ContainsFunc(list, func(c contextInfo) bool { return c.ID == language }) {
			idle = append(idle, contextInfo{ID: language, Language: language, Dir: homeOf(s)})
		}
	}
	return f.WriteJSON(w, append(idle, list...))
}

// createContext is POST /contexts.
func (f *face) createContext(w *httpd.Response, r *http.Request, s *engine.Sandbox) error {
	var req struct {
		Language string `json:"language"`
		Dir      string `json:"cwd"`
	}
	release, err := f.ReadJSON(w, r, &req)
	defer release()
	if err != nil {
		return err
	}
	// A name looks unlike an id of ours, which is reserved.
	name := "c-" + strings.ToLower(string(sandbox.NewID()))[:20]
	c, err := s.CreateContext(r.Context(), engine.ContextRequest{Name: name, Language: languageOf(req.Language),
		Dir: pathIn(s, req.Dir)})
	if err != nil {
		return err
	}
	return f.WriteJSON(w, showContext(c.Info()))
}

// languageOf returns a language in our words.
func languageOf(text string) string {
	switch text = strings.ToLower(text); text {
	case "":
		return "python"
	case "js":
		return "javascript"
	case "ts":
		return "typescript"
	}
	return text
}

// defaultContexts are the languages whose contexts exist from the start. The default context of a language has its name
// as id. Its interpreter starts with the first run.
var defaultContexts = []string{"python", "javascript"}

// placeOf finds the context and the language of an execution. It creates the default context of a language. Languages
// without contexts run in a process: name is then "".
func placeOf(ctx context.Context, s *engine.Sandbox, req *execution) (name, language string, err error) {
	if name = req.Context; name == "" || slices.Contains(defaultContexts, name) {
		language = languageOf(cmp.Or(req.Language, name))
		c, err := defaultContext(ctx, s, language)
		if err != nil || c == nil {
			return "", language, err
		}
		return c.Info().Name, language, nil
	}
	c, err := findContext(s, name)
	if err != nil {
		return "", "", err
	}
	return name, c.Info().Language, nil
}

// defaultContext returns the default context of a language, or nil if the language has no contexts.
func defaultContext(ctx context.Context, s *engine.Sandbox, language string) (*engine.Context, error) {
	c, err := s.Context(language)
	if sandbox.KindOf(err) != sandbox.NotFound {
		return c, err
	}
	c, err = s.CreateContext(ctx, engine.ContextRequest{Name: language, Language: language, Dir: homeOf(s)})
	switch sandbox.KindOf(err) {
	case sandbox.Exists: // another request made it meanwhile
		return s.Context(language)
	case sandbox.Unsupported:
		return nil, nil
	}
	return c, err
}

// inContext finds the context of a request.
func (f *face) inContext(h func(*httpd.Response, *http.Request, *engine.Context) error) inside {
	return func(w *httpd.Response, r *http.Request, s *engine.Sandbox) error {
		c, err := findContext(s, r.PathValue("context"))
		if err != nil && slices.Contains(defaultContexts, r.PathValue("context")) {
			return f.WriteJSON(w, nil) // it has not begun
		}
		if err != nil {
			return err
		}
		return h(w, r, c)
	}
}

func findContext(s *engine.Sandbox, id string) (*engine.Context, error) {
	c, err := s.Context(id)
	if sandbox.KindOf(err) == sandbox.NotFound {
		return nil, &sandbox.Error{Kind: sandbox.NotFound, Msg: "Context " + id + " not found"}
	}
	return c, err
}

func (f *face) restartContext(w *httpd.Response, r *http.Request, c *engine.Context) error {
	if err := c.Restart(r.Context()); err != nil {
		return err
	}
	return f.WriteJSON(w, nil)
}

func (f *face) deleteContext(w *httpd.Response, r *http.Request, c *engine.Context) error {
	if err := c.Delete(r.Context()); err != nil {
		return err
	}
	return f.WriteJSON(w, nil)
}
