package openaiapi

import (
	"encoding/base64"
	"errors"
	"io"
	"mime"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// filePrefix begins the ids of files. The rest is the path in the workspace, in Base64 (RFC 4648, section 5), so an id
// needs no memory, and files that code makes have ids too.
const filePrefix = "cfile_"

const (
	maxListed = 1000 // files of a container in a list
	listDepth = 16   // folders
)

// file describes a file.
type file struct {
	ID        string `json:"id"`
	Object    string `json:"object"`
	Container string `json:"container_id"`
	Created   int64  `json:"created_at"` // when it last changed, in seconds
	Bytes     int64  `json:"bytes"`
	Path      string `json:"path"`
	Source    string `json:"source"`
}

// showFile describes a file of the workspace.
func showFile(s *engine.Sandbox, i sandbox.FileInfo) file {
	within := strings.TrimPrefix(i.Path, sandbox.Workspace+"/")
	return file{ID: filePrefix + base64.RawURLEncoding.EncodeToString([]byte(within)), Object: "container.file",
		Container: idPrefix + string(s.ID()), Created: i.Modified.Unix(), Bytes: i.Size,
		Path: path.Join(sandbox.Workspace, within), Source: "user"}
}

var errNoFile = &sandbox.Error{Kind: sandbox.NotFound, Msg: "no such file in the container"}

// fileOf finds the file of a request.
func fileOf(r *http.Request, s *engine.Sandbox) (i sandbox.FileInfo, err error) {
	within, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(r.PathValue("file"), filePrefix))
	if err != nil || len(within) == 0 || strings.Contains("/"+string(within)+"/", "/../") {
		return i, errNoFile
	}
	i, err = s.Stat(r.Context(), path.Join(sandbox.Workspace, string(within)))
	if err == nil && i.Type != sandbox.TypeFile {
		err = errNoFile
	}
	return i, err
}

// createFile is POST /containers/{id}/files, a form with one file.
func (f *face) createFile(w *httpd.Response, r *http.Request, s *engine.Sandbox) error {
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/form-data" {
		return sandbox.Invalidf("Content-Type", "must be multipart/form-data: files of OpenAI are not here")
	}
	body, err := f.StreamBody(w, r, f.MaxFile())
	if err != nil {
		return err
	}
	form, err := f.NewForm(r.Context(), w, body, params["boundary"])
	if err != nil {
		return err
	}
	for {
		part, content, err := form.Next()
		if errors.Is(err, io.EOF) {
			return sandbox.Invalidf("file", "is missing")
		}
		if err != nil {
			return err
		}
		if part.FormName() != "file" {
			if err := form.Skip(content); err != nil {
				return err
			}
			continue
		}
		name := part.FileName() // without folders
		if name == "" || name == "." || name == ".." {
			return sandbox.Invalidf("file", "has no name")
		}
		to := path.Join(sandbox.Workspace, name)
		if err := s.OverwriteFile(r.Context(), to, content); err != nil {
			return err
		}
		i, err := s.Stat(r.Context(), to)
		if err != nil {
			return err
		}
		return f.WriteJSON(w, showFile(s, i))
	}
}

func (f *face) getFile(w *httpd.Response, r *http.Request, s *engine.Sandbox) error {
	i, err := fileOf(r, s)
	if err != nil {
		return err
	}
	return f.WriteJSON(w, showFile(s, i))
}

func (f *face) deleteFile(w *httpd.Response, r *http.Request, s *engine.Sandbox) error {
	i, err := fileOf(r, s)
	if err == nil {
		err = s.RemoveFile(r.Context(), i.Path, false)
	}
	if err != nil {
		return err
	}
	return f.WriteJSON(w, deleted{r.PathValue("file"), "container.file.deleted", true})
}

// listBytes is the most memory of a list: 4 MiB of paths, which an entry has again, and in Base64 as its id.
const listBytes = 16 << 20

// listFiles is GET /containers/{id}/files, the latest first.
func (f *face) listFiles(w *httpd.Response, r *http.Request, s *engine.Sandbox) error {
	if err := f.Reserve(r.Context(), w, listBytes); err != nil {
		return err
	}
	all, _, err := s.ListFiles(r.Context(), sandbox.Workspace, listDepth, maxListed)
	if err != nil {
		return err
	}
	w.Steps(len(all)) // also of files that the answer omits
	var list []file
	for _, i := range all {
		if i.Type == sandbox.TypeFile {
			list = append(list, showFile(s, i))
		}
	}
	slices.SortStableFunc(list, func(a, b file) int { return int(a.Created - b.Created) })
	p, err := pageOf(r.URL.Query(), list, func(i file) string { return i.ID })
	if err != nil {
		return err
	}
	out := f.NewListAfter(w, p, "data")
	for _, i := range p.Data {
		if err := out.Add(i); err != nil {
			return out.Fail(err)
		}
	}
	return out.End(nil)
}

// readFile is GET /containers/{id}/files/{file}/content.
func (f *face) readFile(w *httpd.Response, r *http.Request, s *engine.Sandbox) error {
	i, err := fileOf(r, s)
	if err != nil {
		return err
	}
	if err := f.Reserve(r.Context(), w, min(i.Size, engine.FileBuffer)); err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Length", strconv.FormatInt(i.Size, 10))
	w.WriteHeader(http.StatusOK)
	if _, err := s.ReadFile(r.Context(), i.Path, 0, i.Size, w); err != nil {
		panic(http.ErrAbortHandler) // an incomplete answer must not look complete
	}
	return nil
}
