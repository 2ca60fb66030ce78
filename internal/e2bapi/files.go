package e2bapi

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"path"
	"strconv"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// readFile is GET /files.
func (f *face) readFile(w *httpd.Response, r *http.Request, s *engine.Sandbox) error {
	name := r.URL.Query().Get("path")
	if err := checkUser(r.URL.Query().Get("username")); err != nil {
		return err
	}
	file := pathIn(s, name)
	i, err := s.Stat(r.Context(), file)
	switch {
	case sandbox.KindOf(err) == sandbox.NotFound:
		return &sandbox.Error{Kind: sandbox.NotFound, Msg: fmt.Sprintf("path '%s' does not exist", name)}
	case err != nil:
		return err
	case i.Type != sandbox.TypeFile:
		return sandbox.Invalidf("path", "path '%s' is a directory", name)
	}
	if err := f.Reserve(r.Context(), w, min(i.Size, engine.FileBuffer)); err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", mime.FormatMediaType("inline", map[string]string{"filename": path.Base(file)}))
	h.Set("Content-Length", strconv.FormatInt(i.Size, 10))
	w.WriteHeader(http.StatusOK)
	if _, err := s.ReadFile(r.Context(), file, 0, i.Size, w); err != nil {
		panic(http.ErrAbortHandler) // an incomplete answer must not look complete
	}
	return nil
}

// written describes a file that was written; SDKs compare all of it.
type written struct {
	Name     string            `json:"name"`
	Type     string            `json:"type"`
	Path     string            `json:"path"`
	Metadata map[string]string `json:"metadata,omitempty"`
}

// fileSteps is the work of writing a file of a form, besides its bytes.
const fileSteps = 20

// writeFile is POST /files: one file as bytes, or files as the parts of a form.
func (f *face) writeFile(w *httpd.Response, r *http.Request, s *engine.Sandbox) error {
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		return sandbox.Invalidf("Content-Type", "is not a media type")
	}
	if err := checkUser(r.URL.Query().Get("username")); err != nil {
		return err
	}
	noted, err := headerMetadata(r.Header)
	if err != nil {
		return err
	}
	const encoding = "Content-Encoding"
	packed := r.Header.Get(encoding) == "gzip"
	if packed {
		r.Header.Del(encoding) // StreamBody refuses all others
	}
	body, err := f.StreamBody(w, r, f.MaxFile())
	if err != nil {
		return err
	}
	if packed {
		if body, err = gunzip(w, body, f.MaxFile()); err != nil {
			return err
		}
	}
	list, in := []written{}, &call{server: f.Server, w: w}
	put := func(name string, content io.Reader) error {
		w.Steps(fileSteps)
		file := pathIn(s, name)
		if i, err := s.Stat(r.Context(), file); err == nil && i.Type == sandbox.TypeFolder {
			return sandbox.Invalidf("path", "path '%s' is a directory", name)
		}
		if err := s.OverwriteFile(r.Context(), file, content); err != nil {
			return err
		}
		if err := f.files.set(s, file, noted); err != nil {
			return err
		}
		list = append(list, written{path.Base(file), "file", file, noted})
		return in.hold(append(pairs(noted), name, file)...)
	}
	named := r.URL.Query().Get("path")
	switch {
	case kind == "multipart/form-data":
		var form *httpd.Form
		if form, err = f.NewForm(r.Context(), w, body, params["boundary"]); err == nil {
			err = eachPart(form, named, put)
		}
	case kind == "application/octet-stream" && named != "":
		err = put(named, body)
	default:
		err = sandbox.Invalidf("Content-Type", "%.100q is not supported", kind)
	}
	if err != nil {
		return err
	}
	return f.WriteJSON(w, list)
}

// eachPart writes the files of a form. A name in the query wins over that of the part.
func eachPart(form *httpd.Form, named string, put func(string, io.Reader) error) error {
	for {
		part, content, err := form.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if part.FormName() == "file" {
			name := named
			if name == "" { // FileName would cut its folders
				_, params, _ := mime.ParseMediaType(part.Header.Get("Content-Disposition"))
				name = params["filename"]
			}
			if name == "" {
				return sandbox.Invalidf("path", "is missing")
			}
			err = put(name, content)
		} else {
			err = form.Skip(content)
		}
		if err != nil {
			return err
		}
	}
}
