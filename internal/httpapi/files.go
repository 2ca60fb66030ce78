package httpapi

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// pathOf returns the path of a request: in the URL, which cannot hold an absolute one, or as ?path=. absent is the
// default; "" requires a path.
func pathOf(r *http.Request, absent string) (string, error) {
	inURL, inQuery := r.PathValue("path"), r.URL.Query().Has("path")
	switch {
	case inQuery && inURL != "":
		return "", sandbox.Invalidf("path", "is in the URL and in the query")
	case inQuery:
		return (&query{r: r}).text("path"), nil
	case inURL != "":
		return inURL, nil
	case absent == "":
		return "", sandbox.Invalidf("path", "is missing")
	}
	return absent, nil
}

// readFiles is GET of a file, of a folder's listing, or of a description.
func (a *apiV1) readFiles(w *httpd.Response, r *http.Request, s *engine.Sandbox) error {
	q := query{r: r}
	of := listing{depth: q.number("depth", 1, 1, 1<<16), limit: q.number("limit", 0, 1, engine.MaxFileList)}
	if q.err != nil {
		return q.err
	}
	file, err := pathOf(r, sandbox.Workspace)
	if err != nil {
		return err
	}
	of.folder = file
	archive, err := archiveOf(r)
	if err != nil {
		return err
	}
	info, err := s.Stat(r.Context(), file)
	switch {
	case err != nil:
		return err
	case archive != "" && info.Type == sandbox.TypeFolder:
		return a.sendFolder(w, r, s, file, archive)
	case archive != "":
		return sandbox.Invalidf("archive", "is for folders, and the path is a %s", info.Type)
	case q.truth("stat"):
		return a.WriteJSON(w, showFile(info))
	case info.Type == sandbox.TypeFolder || q.truth("list"):
		return a.listFiles(w, r, s, of)
	case info.Type != sandbox.TypeFile:
		return sandbox.Invalidf("path", "it is a %s, which cannot be read", info.Type)
	}
	return a.sendFile(w, r, s, file, info.Size)
}

// listing is what a request lists.
type listing struct {
	folder       string
	depth, limit int
}

// listFiles streams a listing. Nothing of it stays in memory.
func (a *apiV1) listFiles(w *httpd.Response, r *http.Request, s *engine.Sandbox, of listing) error {
	if err := a.Reserve(r.Context(), w, engine.FileBuffer); err != nil {
		return err
	}
	list := a.NewList(w, "files")
	more, err := s.EachFile(r.Context(), of.folder, of.depth, of.limit, func(f sandbox.FileInfo) error {
		return list.Add(showFile(f))
	})
	if err != nil {
		return list.Fail(err)
	}
	return list.End(&more)
}

// sendFile streams a regular file, or a range of it. Nothing of it stays in memory.
func (a *apiV1) sendFile(w *httpd.Response, r *http.Request, s *engine.Sandbox, file string, size int64) error {
	begin, end, partial := rangeOf(r.Header.Get("Range"), size)
	h := w.Header()
	h.Set("Accept-Ranges", "bytes")
	if partial && begin >= end {
		h.Set("Content-Range", "bytes */"+strconv.FormatInt(size, 10))
		return httpd.Refuse(http.StatusRequestedRangeNotSatisfiable, sandbox.Invalid,
			"the file has "+strconv.FormatInt(size, 10)+" bytes", "")
	}
	body := &fileBody{out: w, left: end - begin, begin: func() {
		h.Set("Content-Type", api.MediaBytes)
		h.Set("Content-Length", strconv.FormatInt(end-begin, 10))
		if partial {
			h.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", begin, end-1, size))
			w.WriteHeader(http.StatusPartialContent)
		} else {
			w.WriteHeader(http.StatusOK)
		}
	}}
	if r.Method == http.MethodHead || end == begin {
		body.start()
		return nil
	}
	err := a.Reserve(r.Context(), w, min(end-begin, engine.FileBuffer))
	if err == nil {
		_, err = s.ReadFile(r.Context(), file, begin, end-begin, body)
	}
	switch {
	case !body.started && err != nil:
		return err
	case body.failed:
		a.LostClient()
	}
	if body.left > 0 { // the file has shrunk, or could not be read on: the client must see that
		panic(http.ErrAbortHandler)
	}
	return nil
}

// fileBody is an answer whose headers are sent with its first bytes, so that a failure before them has its own status.
type fileBody struct {
	out     *httpd.Response
	begin   func()
	started bool
	failed  bool
	left    int64
}

func (b *fileBody) start() {
	if !b.started {
		b.started = true
		b.begin()
	}
}

func (b *fileBody) Write(p []byte) (int, error) {
	b.start()
	n, err := b.out.Write(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	b.failed = b.failed || err != nil
	if err != nil {
		return n, err
	}
	return len(p), nil
}

// rangeOf parses a header Range of one range (RFC 9110, section 14.2). It ignores any other header, as without one. A
// range outside of the file is empty.
func rangeOf(header string, size int64) (begin, end int64, partial bool) {
	spec, isBytes := strings.CutPrefix(header, "bytes=")
	first, last, hasDash := strings.Cut(strings.TrimSpace(spec), "-")
	from, errFrom := strconv.ParseUint(first, 10, 63)
	to, errTo := strconv.ParseUint(last, 10, 63)
	switch {
	case !isBytes || !hasDash || first == "" && last == "":
		return 0, size, false
	case first == "" && errTo == nil: // the last bytes
		return size - min(size, int64(to)), size, true
	case errFrom == nil && last == "":
		return min(size, int64(from)), size, true
	case errFrom == nil && errTo == nil && from <= to:
		return min(size, int64(from)), min(size-1, int64(to)) + 1, true
	}
	return 0, size, false
}

func showFile(f sandbox.FileInfo) api.FileInfo {
	shown := api.FileInfo{Path: f.Path, Type: f.Type, Mode: fmt.Sprintf("%04o", f.Mode),
		ModifiedAt: f.Modified.UTC(), Target: f.Target, Error: f.Err}
	if f.Type == sandbox.TypeFile {
		shown.Size = f.Size
	}
	return shown
}

// writeFile is PUT of a file: whole or not at all.
func (a *apiV1) writeFile(w *httpd.Response, r *http.Request, s *engine.Sandbox) error {
	archive, err := archiveOf(r)
	if err != nil {
		return err
	}
	if archive != "" {
		folder, err := pathOf(r, sandbox.Workspace)
		if err != nil {
			return err
		}
		return a.receiveFolder(w, r, s, folder, archive)
	}
	file, err := pathOf(r, "")
	if err != nil {
		return err
	}
	mode, err := modeOf("mode", (&query{r: r}).text("mode"))
	if err != nil {
		return err
	}
	body, err := a.StreamBody(w, r, a.MaxFile())
	if err != nil {
		return err
	}
	_, missing := s.Stat(r.Context(), file)
	if missing != nil && sandbox.KindOf(missing) != sandbox.NotFound {
		return missing
	}
	if err := s.WriteFile(r.Context(), file, mode, body); err != nil {
		return err
	}
	if missing != nil {
		w.WriteHeader(http.StatusCreated)
		return nil
	}
	return done(w, nil)
}

func (a *apiV1) removeFile(w *httpd.Response, r *http.Request, s *engine.Sandbox) error {
	file, err := pathOf(r, "")
	if err != nil {
		return err
	}
	return done(w, s.RemoveFile(r.Context(), file, (&query{r: r}).truth("recursive")))
}

func (a *apiV1) moveFile(w *httpd.Response, r *http.Request, s *engine.Sandbox, req *api.MoveRequest) error {
	return done(w, s.MoveFile(r.Context(), req.From, req.To, req.Replace))
}

func (a *apiV1) makeFolder(w *httpd.Response, r *http.Request, s *engine.Sandbox, req *api.FolderRequest) error {
	return done(w, s.MakeFolder(r.Context(), req.Path))
}

func (a *apiV1) clean(w *httpd.Response, r *http.Request, s *engine.Sandbox) error {
	var req api.CleanRequest
	if r.ContentLength != 0 {
		release, err := a.readJSON(w, r, &req)
		defer release()
		if err != nil {
			return err
		}
	}
	return done(w, s.Clean(r.Context(), req.Force))
}
