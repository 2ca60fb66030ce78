package main

import (
	"encoding/base64"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// maxSaved limits the numbers of the files of values in one folder.
const maxSaved = 100_000

// savedTypes are the forms of values that are saved in files, the best first. Text is printed, and application/json saved only where
// there is
// no text.
var savedTypes = []struct{ media, extension string }{
	{"image/png", "png"}, {"image/jpeg", "jpg"}, {"image/svg+xml", "svg"}, {"text/html", "html"}, {"text/latex", "tex"},
	{"text/markdown", "md"},
	{"application/json", "json"},
}

// values passes on the values that code shows: text to stdout as a console would, other forms to files.
type values struct {
	app  *app
	show *show // may be nil
	out  *filesOut
	dir  string

	main    []string       // texts of the last expression's values, which are printed after all output
	unsaved []string       // media types of values that were not saved, in order of appearance
	counts  map[string]int // of unsaved
	failed  bool           // a value could not be saved
}

// take passes a value on.
func (v *values) take(shown *api.Result) {
	text, ok := shown.Data["text/plain"]
	media, _ := savedForm(shown)
	switch {
	case ok && shown.Main: // its event may come before that of output that was written earlier
		v.main = append(v.main, text)
	case ok && !strings.HasPrefix(media, "image/"):
		v.show.line(text)
	}
	v.save(shown)
}

// flush prints what waits for the end of the output.
func (v *values) flush() {
	for _, text := range v.main {
		v.show.line(text)
	}
	v.main = nil
}

// savedForm is the form of a value to save, or "".
func savedForm(shown *api.Result) (media, extension string) {
	_, hasText := shown.Data["text/plain"]
	for _, t := range savedTypes {
		if _, ok := shown.Data[t.media]; ok && !(hasText && t.media == "application/json") {
			return t.media, t.extension
		}
	}
	return "", ""
}

// save writes a value to the folder of --out, or counts it.
func (v *values) save(shown *api.Result) {
	media, extension := savedForm(shown)
	if media == "" {
		return
	}
	if v.out == nil {
		if _, hasText := shown.Data["text/plain"]; hasText && !strings.HasPrefix(media, "image/") {
			return // take has printed it
		}
		if v.counts == nil {
			v.counts = map[string]int{}
		}
		if v.counts[media]++; !slices.Contains(v.unsaved, media) {
			v.unsaved = append(v.unsaved, media)
		}
		return
	}
	data, err := []byte(shown.Data[media]), error(nil)
	if media == "image/png" || media == "image/jpeg" {
		data, err = base64.StdEncoding.DecodeString(shown.Data[media])
	}
	name := ""
	if err == nil {
		name, err = v.out.freeName("result-", "."+extension)
	}
	if err == nil {
		err = v.out.write(sandbox.File{Path: name, Data: data, Mode: 0o644})
	}
	if err != nil {
		v.failed = true
		v.app.warn("a value of type %s was not saved: %s", media, oneLine(err.Error()))
	} else if v.app.verbose || isTerminal(v.app.Stderr) {
		v.app.note(faint, "wrote %s (%s)", filepath.Join(v.dir, name), sandbox.FormatBytes(int64(len(data))))
	}
}

// report says how many values were not saved.
func (v *values) report() {
	if len(v.unsaved) == 0 || v.app.json {
		return
	}
	var parts []string
	total := 0
	for _, media := range v.unsaved {
		total += v.counts[media]
		parts = append(parts, fmt.Sprintf("%d of type %s", v.counts[media], media))
	}
	words := "values were shown"
	if total == 1 {
		words = "value was shown"
	}
	v.app.note(plain, "%d %s that a terminal cannot show: %s; --out DIR saves them", total, words, strings.Join(parts, ", "))
}

// freeName is the first name of the form BEFORE N AFTER that nothing in the folder has.
func (o *filesOut) freeName(before, after string) (string, error) {
	for n := 1; n <= maxSaved; n++ {
		name := before + strconv.Itoa(n) + after
		if _, err := o.root.Lstat(name); err != nil {
			return name, nil // write reports what else may be wrong
		}
	}
	return "", fmt.Errorf("the folder has %d files of that kind", maxSaved)
}
