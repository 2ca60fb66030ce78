package main

import (
	"encoding/base64"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/internal/cli/terminal"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// savedTypes are the forms of results that are saved in files, the best first. Text is printed; JSON is saved only
// without text.
var savedTypes = []struct{ media, extension string }{
	{"image/png", "png"}, {"image/jpeg", "jpg"}, {"image/svg+xml", "svg"}, {"text/html", "html"}, {"text/latex", "tex"},
	{"text/markdown", "md"}, {"application/json", "json"},
}

// results passes on the results that code displays: text to stdout, as a console does, other forms to files.
type results struct {
	app    *app
	output *output // nil with --json
	to     destination

	main    []string       // texts of the last expression's results, which are printed after all output
	unsaved []string       // media types of results that were not saved, in order of appearance
	counts  map[string]int // of unsaved
	failed  bool           // a result could not be saved
}

func (v *results) take(r *api.Result) {
	text, ok := r.Data["text/plain"]
	media, _ := savedForm(r)
	switch {
	case ok && r.Main: // its event may precede that of output that was written earlier
		v.main = append(v.main, text)
	case ok && !strings.HasPrefix(media, "image/"):
		v.output.line(text)
	}
	v.save(r)
}

// flush prints the texts that wait for the end of the output.
func (v *results) flush() {
	for _, text := range v.main {
		v.output.line(text)
	}
	v.main = nil
}

// savedForm returns the form of a result to save, or "".
func savedForm(r *api.Result) (media, extension string) {
	_, hasText := r.Data["text/plain"]
	for _, t := range savedTypes {
		if _, ok := r.Data[t.media]; ok && !(hasText && t.media == "application/json") {
			return t.media, t.extension
		}
	}
	return "", ""
}

// save writes a result to the folder of --out, or counts it.
func (v *results) save(r *api.Result) {
	media, extension := savedForm(r)
	if media == "" {
		return
	}
	if v.to.out == nil {
		if _, hasText := r.Data["text/plain"]; hasText && !strings.HasPrefix(media, "image/") {
			return // take printed it
		}
		if v.counts == nil {
			v.counts = map[string]int{}
		}
		if v.counts[media]++; !slices.Contains(v.unsaved, media) {
			v.unsaved = append(v.unsaved, media)
		}
		return
	}
	data, err := []byte(r.Data[media]), error(nil)
	if media == "image/png" || media == "image/jpeg" {
		data, err = base64.StdEncoding.DecodeString(r.Data[media])
	}
	name := ""
	if err == nil {
		name, err = v.to.out.FreeName("result-", "."+extension)
	}
	if err == nil {
		err = v.to.out.Write(sandbox.File{Path: name, Data: data, Mode: 0o644})
	}
	if err != nil {
		v.failed = true
		v.app.warn("a result of type %s was not saved: %s", media, terminal.OneLine(err.Error()))
		return
	}
	v.app.noteWritten(filepath.Join(v.to.dir, name), len(data))
}

// report notes how many results were not saved.
func (v *results) report() {
	if len(v.unsaved) == 0 || v.app.json {
		return
	}
	var parts []string
	for _, media := range v.unsaved {
		parts = append(parts, fmt.Sprintf("%d of type %s", v.counts[media], media))
	}
	v.app.note(terminal.Plain, "a terminal cannot show some results: %s; --out DIR saves them",
		strings.Join(parts, ", "))
}
