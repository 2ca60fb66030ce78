package mcp

import (
	"fmt"
	"strings"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/internal/answer"
	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/wording"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Limits of one result, in bytes: models pay for each byte that they read.
const (
	maxStdout     = 40 << 10
	maxStderr     = 12 << 10
	maxValues     = 8 << 10 // of all values that are no pictures
	maxTrace      = 4 << 10
	maxNote       = 4 << 10 // of Fumehood's own words
	maxImages     = 8
	maxImageBytes = 4 << 20 // of all of them, before base64

	// Over HTTP, a result is one event, and the published Python client takes events of up to 1 MiB.
	maxEventImageBytes = 640 << 10
)

// imageRoom is how many bytes of pictures one result may hold.
func (s *Server) imageRoom() int {
	if s.config.Public {
		return maxEventImageBytes
	}
	return maxImageBytes
}

// report turns a result into content: a compact account for the model, pictures, and the same as values.
func (c *call) report(box *engine.Sandbox, why string, r *sandbox.Result) *sdk.CallToolResult {
	o := answer.NewOutcome(wording.Tool, r)
	out := ran{Status: o.Status, ExitCode: o.ExitCode, Hint: o.Hint, Results: []api.Result{}}
	var notes []string
	if why != "" {
		notes = append(notes, why)
	}
	for _, stream := range []struct {
		name  string
		text  string
		limit int
		into  *string
	}{
		{"stdout", answer.Text(r.Stdout), maxStdout, &out.Stdout},
		{"stderr", answer.Text(r.Stderr), maxStderr, &out.Stderr},
	} {
		*stream.into = cut(stream.text, stream.limit)
		if len(stream.text) > stream.limit {
			notes = append(notes, c.keep(box, string(r.ID)+"."+stream.name, stream.text))
		}
	}
	if x := answer.WithoutTrace(o.Exception, out.Stderr); x != nil {
		out.Exception = &sandbox.Exception{Name: cut(x.Name, maxNote), Value: cut(x.Value, maxTrace),
			Traceback: cut(x.Traceback, maxTrace)}
	}
	values, images := showValues(r.Results, &out, c.session.server.imageRoom(), &notes)
	text := account(&out, values, notes, len(images) > 0)
	content := append([]sdk.Content{&sdk.TextContent{Text: text}}, images...)
	return &sdk.CallToolResult{Content: content, StructuredContent: out}
}

// account describes a result in one text.
func account(out *ran, values, notes []string, pictures bool) string {
	var parts []string
	add := func(label, text string) {
		if text = strings.TrimRight(text, "\n"); text != "" {
			parts = append(parts, label+text)
		}
	}
	add("", out.Stdout)
	for _, v := range values {
		add("=> ", v)
	}
	add("stderr:\n", out.Stderr)
	if x := out.Exception; x != nil {
		add("", x.Traceback)
	}
	if out.Status != sandbox.StatusSucceeded {
		line := "status: " + string(out.Status)
		if out.ExitCode != nil {
			line += fmt.Sprintf(", exit code %d", *out.ExitCode)
		}
		add("", line)
	}
	if out.Hint != nil {
		add("hint: ", *out.Hint)
	}
	for _, note := range notes {
		add("note: ", note)
	}
	switch {
	case len(parts) == 0 && pictures:
		return "It succeeded, and showed this."
	case len(parts) == 0:
		return "It succeeded, without output."
	}
	return strings.Join(parts, "\n")
}

// textForms are the forms of a value that a model reads best, in this order.
var textForms = []string{"text/plain", "text/markdown", "application/json", "text/latex", "image/svg+xml", "text/html"}

// showValues splits the values of a result: pictures become content, others become texts and results of out.
func showValues(all []sandbox.Value, out *ran, imageRoom int, notes *[]string) (values []string, images []sdk.Content) {
	room, left, leftImages := maxValues, 0, 0
	for _, s := range all {
		v := api.Result{Main: s.Main, Data: map[string]string{}}
		best, rank, picture := "", len(textForms), false
		for _, f := range s.Forms {
			if f.Type == "image/png" || f.Type == "image/jpeg" {
				picture = true
				if len(images) == maxImages || len(f.Data) > imageRoom {
					leftImages++
					continue
				}
				imageRoom -= len(f.Data)
				images = append(images, &sdk.ImageContent{Data: f.Data, MIMEType: f.Type})
				continue
			}
			text := strings.ToValidUTF8(string(f.Data), "\uFFFD")
			for i, name := range textForms {
				if name == f.Type && i < rank {
					best, rank = text, i
				}
			}
			if len(text) <= room {
				room -= len(text)
				v.Data[f.Type] = text
			}
		}
		if len(v.Data) > 0 {
			out.Results = append(out.Results, v)
		}
		switch {
		case best == "" || picture: // its text says only that it is one
		case len(v.Data) == 0 && len(values) > 0:
			left++
		default:
			values = append(values, cut(best, maxValues/4))
		}
	}
	if left > 0 {
		*notes = append(*notes, fmt.Sprintf("%d further values are not shown here; print less at a time.", left))
	}
	if leftImages > 0 {
		*notes = append(*notes,
			fmt.Sprintf("%d further pictures are too large or too many; make them smaller.", leftImages))
	}
	return values, images
}

// keep writes all of a stream that was cut to a file of the sandbox, to read in parts, and returns a note of it.
func (c *call) keep(box *engine.Sandbox, name, text string) string {
	file := "/tmp/fumehood/" + name
	_, stream, _ := strings.Cut(name, ".")
	if err := box.WriteFile(c.ctx, file, 0, strings.NewReader(text)); err != nil {
		return fmt.Sprintf("%s has %d bytes, of which some are left out; print less, or to a file.", stream, len(text))
	}
	return fmt.Sprintf("%s has %d bytes, of which some are left out; read_file has all of it at %s.", stream, len(text),
		file)
}

// cut keeps the start and the end of a long text, between characters.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	head, tail := limit*3/4, len(text)-limit/4
	for head > 0 && !utf8.RuneStart(text[head]) {
		head--
	}
	for tail < len(text) && !utf8.RuneStart(text[tail]) {
		tail++
	}
	return text[:head] + fmt.Sprintf("\n[... %d bytes left out ...]\n", tail-head) + text[tail:]
}
