package mcp

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/fumehood-dev/fumehood/internal/answer"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Limits of the file tools.
const (
	maxRead  = 48 << 10 // bytes of one part of a file
	maxDepth = 16
	maxList  = 500 // entries

	// what a part of a file or a list takes at most: in JSON each byte may take six, and the text comes twice
	textResult = 2 * 6 * maxRead * resultCopies
)

type readOut struct {
	Path   string  `json:"path"`
	Size   int64   `json:"size"`
	Offset int64   `json:"offset"`
	Length int     `json:"length"`
	More   bool    `json:"more"`
	Type   string  `json:"type"`
	Text   *string `json:"text,omitempty"`
	Base64 []byte  `json:"base64,omitempty"`
}

var readSchema = giving(object{
	"path":   field("string", "The path."),
	"size":   field("integer", "Bytes of the whole file."),
	"offset": field("integer", "Where this part begins."),
	"length": field("integer", "Bytes of this part."),
	"more":   field("boolean", "Whether there is more after it."),
	"type":   field("string", "Media type, as its content suggests."),
	"text":   field("string", "The part, if it is text."),
	"base64": field("string", "The part, if it is neither text nor a picture."),
}, "path", "size", "offset", "length", "more", "type")

var pictures = map[string]bool{"image/png": true, "image/jpeg": true, "image/gif": true, "image/webp": true}

func readFile(c *call, arguments json.RawMessage) (*sdk.CallToolResult, error) {
	var in struct {
		Path   string `json:"path"`
		Offset int64  `json:"offset"`
		Length int64  `json:"length"`
	}
	if err := decode(arguments, &in); err != nil {
		return nil, err
	}
	if in.Offset < 0 || in.Length < 0 {
		return nil, sandbox.Invalidf("offset", "offset and length must not be negative")
	}
	whole := in.Offset == 0 && in.Length == 0
	if in.Length == 0 || in.Length > maxRead {
		in.Length = maxRead
	}
	box, why, err := c.sandbox()
	if err != nil {
		return nil, err
	}
	if err := c.reserve(textResult); err != nil {
		return nil, err
	}
	var data bytes.Buffer
	info, err := box.ReadFile(c.ctx, in.Path, in.Offset, in.Length, &data)
	if err != nil {
		return nil, err
	}
	out := readOut{Path: in.Path, Size: info.Size, Offset: in.Offset, Type: http.DetectContentType(data.Bytes())}
	if whole && pictures[out.Type] && info.Size <= int64(c.session.server.imageRoom()) {
		if err := c.reserve(resultCopies * info.Size * 4 / 3); err != nil {
			return nil, err
		}
		data.Reset()
		if _, err := box.ReadFile(c.ctx, in.Path, 0, info.Size, &data); err != nil {
			return nil, err
		}
		out.Length = data.Len()
		return withNote(why, out, &sdk.ImageContent{Data: data.Bytes(), MIMEType: out.Type}), nil
	}
	part := data.Bytes()
	if text, ok := textOf(part, in.Offset+int64(len(part)) < info.Size); ok {
		part, out.Text = part[:len(text)], &text
	} else {
		out.Base64 = part
	}
	out.Length = len(part)
	out.More = in.Offset+int64(len(part)) < info.Size
	var body string
	if out.Text != nil {
		body = *out.Text
	} else {
		body = fmt.Sprintf("%d bytes of type %s as base64:\n", len(part), out.Type) +
			base64.StdEncoding.EncodeToString(part)
	}
	if out.More {
		body += fmt.Sprintf("\n[bytes %d to %d of %d; read on at offset %d]", in.Offset, in.Offset+int64(len(part)),
			info.Size, in.Offset+int64(len(part)))
	}
	return withNote(why, out, &sdk.TextContent{Text: body}), nil
}

// textOf returns bytes as text, without a character that is cut off at the end of a part.
func textOf(part []byte, more bool) (string, bool) {
	for end := len(part); end >= 0 && end > len(part)-utf8.UTFMax; end-- {
		if utf8.Valid(part[:end]) && (end > 0 || len(part) == 0) {
			return string(part[:end]), !bytes.ContainsRune(part[:end], 0)
		}
		if !more {
			break
		}
	}
	return "", false
}

type wroteOut struct {
	Path string `json:"path"`
	Size int    `json:"size"`
}

var wroteSchema = giving(object{
	"path": field("string", "The path."),
	"size": field("integer", "Bytes that were written."),
}, "path", "size")

func writeFile(c *call, arguments json.RawMessage) (*sdk.CallToolResult, error) {
	var in struct {
		Path    string  `json:"path"`
		Content *string `json:"content"`
		Base64  *string `json:"content_base64"`
	}
	if err := decode(arguments, &in); err != nil {
		return nil, err
	}
	if (in.Content == nil) == (in.Base64 == nil) {
		return nil, sandbox.Invalidf("content", "give either content or content_base64")
	}
	var data []byte
	if in.Content != nil {
		data = []byte(*in.Content)
	} else {
		var err error
		if data, err = base64.StdEncoding.DecodeString(*in.Base64); err != nil {
			return nil, sandbox.Invalidf("content_base64", "is not base64")
		}
	}
	box, why, err := c.sandbox()
	if err != nil {
		return nil, err
	}
	if err := box.WriteFile(c.ctx, in.Path, 0, bytes.NewReader(data)); err != nil {
		return nil, err
	}
	text := fmt.Sprintf("Wrote %d bytes to %s.", len(data), answer.Cut(in.Path, answer.MaxModelNote))
	return withNote(why, wroteOut{in.Path, len(data)}, &sdk.TextContent{Text: text}), nil
}

type listed struct {
	Path   string           `json:"path"`
	Type   sandbox.FileType `json:"type"`
	Size   int64            `json:"size"`
	Target string           `json:"target,omitempty"`
}

type listOut struct {
	Files []listed `json:"files"`
	More  bool     `json:"more"`
}

var listSchema = giving(object{
	"files": object{"type": "array", "items": giving(object{
		"path":   field("string", "Relative to the folder."),
		"type":   field("string", "Such as file, folder or symlink."),
		"size":   field("integer", "In bytes."),
		"target": field("string", "Of a symbolic link."),
	}, "path", "type", "size")},
	"more": field("boolean", "Whether there are others."),
}, "files", "more")

func listFiles(c *call, arguments json.RawMessage) (*sdk.CallToolResult, error) {
	in := struct {
		Path  string `json:"path"`
		Depth int    `json:"depth"`
	}{Depth: 1}
	if err := decode(arguments, &in); err != nil {
		return nil, err
	}
	if in.Depth < 1 || in.Depth > maxDepth {
		return nil, sandbox.Invalidf("depth", "must be from 1 to %d", maxDepth)
	}
	if in.Path == "" {
		in.Path = sandbox.Workspace
	}
	box, why, err := c.sandbox()
	if err != nil {
		return nil, err
	}
	if err := c.reserve(textResult); err != nil {
		return nil, err
	}
	files, more, err := box.ListFiles(c.ctx, in.Path, in.Depth, maxList)
	if err != nil {
		return nil, err
	}
	out, text := listing(files, more)
	return withNote(why, out, text), nil
}

// listing is a list of files as text and as values, of at most answer.MaxModelStdout bytes of names.
func listing(files []sandbox.FileInfo, more bool) (listOut, *sdk.TextContent) {
	out, room := listOut{Files: []listed{}, More: more}, answer.MaxModelStdout
	var text strings.Builder
	for _, f := range files {
		l := listed{strings.ToValidUTF8(f.Path, "\uFFFD"), f.Type, f.Size, strings.ToValidUTF8(f.Target, "\uFFFD")}
		if room -= len(l.Path) + len(l.Target); room < 0 {
			out.More = true
			break
		}
		out.Files = append(out.Files, l)
		fmt.Fprintf(&text, "%s %d %s", l.Type, l.Size, l.Path)
		if l.Target != "" {
			text.WriteString(" -> " + l.Target)
		}
		text.WriteByte('\n')
	}
	if out.More {
		text.WriteString("[there are more; list a folder below]\n")
	}
	if text.Len() == 0 {
		text.WriteString("The folder is empty.")
	}
	return out, &sdk.TextContent{Text: text.String()}
}

// withNote returns a result with a note about the sandbox, unless why is "".
func withNote(why string, structured any, content sdk.Content) *sdk.CallToolResult {
	r := &sdk.CallToolResult{StructuredContent: structured, Content: []sdk.Content{content}}
	if why != "" {
		r.Content = append(r.Content, &sdk.TextContent{Text: "note: " + why})
	}
	return r
}
