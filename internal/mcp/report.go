package mcp

import (
	"fmt"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/internal/answer"
	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/wording"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Limits of the pictures of one result. Package answer has those of its text.
const (
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
	a := answer.NewAccount(wording.Tool, r)
	out := ran{Status: a.Status, ExitCode: a.ExitCode, Hint: a.Hint, Stdout: a.Stdout, Stderr: a.Stderr,
		Exception: a.Exception, Results: valuesOf(r.Results), Background: a.Background}
	if why != "" {
		a.Notes = append([]string{why}, a.Notes...)
	}
	for _, stream := range []struct {
		name  string
		all   sandbox.Captured
		limit int
	}{{"stdout", r.Stdout, answer.MaxModelStdout}, {"stderr", r.Stderr, answer.MaxModelStderr}} {
		if text := answer.Text(stream.all); len(text) > stream.limit && len(answer.Screen(text)) > stream.limit {
			a.Notes = append(a.Notes, c.keep(box, string(r.ID)+"."+stream.name, text))
		}
	}
	images, left := picturesOf(r.Results, c.session.server.imageRoom())
	if left > 0 {
		a.Notes = append(a.Notes,
			fmt.Sprintf("%d further pictures are too large or too many; make them smaller.", left))
	}
	content := append([]sdk.Content{&sdk.TextContent{Text: a.String()}}, images...)
	return &sdk.CallToolResult{Content: content, StructuredContent: out}
}

// picturesOf returns the pictures of the values of a result as content, and how many there are no room for.
func picturesOf(values []sandbox.Value, room int) (images []sdk.Content, left int) {
	for _, v := range values {
		for _, f := range v.Forms {
			switch {
			case f.Type != "image/png" && f.Type != "image/jpeg":
			case len(images) == maxImages || len(f.Data) > room:
				left++
			default:
				room -= len(f.Data)
				images = append(images, &sdk.ImageContent{Data: f.Data, MIMEType: f.Type})
			}
		}
	}
	return images, left
}

// valuesOf returns the values of a result without pictures, as far as there is room.
func valuesOf(values []sandbox.Value) []api.Result {
	out, room := []api.Result{}, answer.MaxModelValues
	for _, s := range values {
		v := api.Result{Main: s.Main, Data: map[string]string{}}
		for _, f := range s.Forms {
			if f.Type == "image/png" || f.Type == "image/jpeg" || len(f.Data) > room {
				continue
			}
			room -= len(f.Data)
			v.Data[f.Type] = strings.ToValidUTF8(string(f.Data), "\uFFFD")
		}
		if len(v.Data) > 0 {
			out = append(out, v)
		}
	}
	return out
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
