package main

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

//go:embed assets
var assets embed.FS

// group is a heading of the menu, and the pages below it by their names without .md, in order.
type group struct {
	Title string
	Names []string
}

var menu = []group{
	{"Start", []string{"README", "install", "dashboard", "command-line", "sandboxes", "contexts", "operate"}},
	{"Clients", []string{"python", "typescript", "http", "mcp", "e2b", "openai", "langchain", "smolagents", "calls"}},
	{"Isolation", []string{"backends", "limits", "network", "secrets", "verify", "checks", "SECURITY"}},
	{"Content", []string{"packages", "images", "templates", "volumes", "ports", "state"}},
	{"About", []string{"comparison", "ARCHITECTURE", "RATIONALE", "CONTRIBUTING", "CHANGELOG"}},
}

const moreTitle = "More" // of pages that the menu does not name

// page is one page of the site.
type page struct {
	name   string // without .md; also of its file
	source string // its path in the repository
	Title  string
	Body   template.HTML
	texts  []section
}

// section is an entry of the search's index.
type section struct {
	Page  string `json:"p"` // the page and anchor
	Title string `json:"t"`
	Text  string `json:"x"`
}

type site struct {
	source, out, version string

	pages []*page
}

// file returns the name of a page's file.
func file(name string) string {
	if name == "README" {
		return "index.html"
	}
	return strings.ToLower(name) + ".html"
}

// make replaces the site.
func (s *site) make() error {
	if err := s.read(); err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(s.out), os.MkdirAll(s.out, 0o755)); err != nil {
		return err
	}
	layout, err := template.ParseFS(assets, "assets/page.html")
	if err != nil {
		return err
	}
	var index []section
	for _, p := range s.pages {
		var page bytes.Buffer
		data := map[string]any{"Page": p, "File": file(p.name), "Menu": s.menu(), "Version": s.version}
		if err := layout.Execute(&page, data); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(s.out, file(p.name)), page.Bytes(), 0o644); err != nil {
			return err
		}
		index = append(index, p.texts...)
	}
	// A script, as browsers let no page of a folder fetch a file.
	text, err := json.Marshal(index)
	if err != nil {
		return err
	}
	files := map[string][]byte{"index.js": append(append([]byte("window.searchIndex = "), text...), ";\n"...)}
	for _, name := range []string{"style.css", "search.js"} {
		if files[name], err = assets.ReadFile("assets/" + name); err != nil {
			return err
		}
	}
	for name, content := range files {
		err = errors.Join(err, os.WriteFile(filepath.Join(s.out, name), content, 0o644))
	}
	return err
}

type link struct{ Title, File string }

type entry struct {
	Title string
	Links []link
}

// menu returns the headings with links to their pages, and pages without a heading under the last.
func (s *site) menu() []entry {
	byName, named := map[string]*page{}, map[string]bool{}
	for _, p := range s.pages {
		byName[p.name] = p
	}
	var entries []entry
	for _, g := range menu {
		e := entry{Title: g.Title}
		for _, name := range g.Names {
			if p := byName[name]; p != nil {
				e.Links = append(e.Links, link{p.Title, file(name)})
				named[name] = true
			}
		}
		entries = append(entries, e)
	}
	more := entry{Title: moreTitle}
	for _, p := range s.pages {
		if !named[p.name] {
			more.Links = append(more.Links, link{p.Title, file(p.name)})
		}
	}
	if more.Links != nil {
		entries = append(entries, more)
	}
	return entries
}

// read converts all Markdown files of the root and of docs.
func (s *site) read() error {
	tree := os.DirFS(s.source)
	var names []string
	for _, pattern := range []string{"docs/*.md", "*.md"} {
		found, err := fs.Glob(tree, pattern)
		if err != nil {
			return err
		}
		names = append(names, found...)
	}
	for _, name := range names {
		source, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		p, err := convert(name, source)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		s.pages = append(s.pages, p)
	}
	return nil
}

var markdown = goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithParserOptions(parser.WithAutoHeadingID()))

// convert makes a page of Markdown. Links to other pages get the names of their files. Raw HTML is left out.
func convert(name string, source []byte) (*page, error) {
	p := &page{name: strings.TrimSuffix(filepath.Base(name), ".md"), source: name}
	document := markdown.Parser().Parse(text.NewReader(source))
	err := ast.Walk(document, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Link:
			n.Destination = []byte(target(string(n.Destination), name))
		case *ast.Heading:
			p.heading(n, source)
		case *ast.Paragraph, *ast.FencedCodeBlock, *ast.CodeBlock, *ast.TextBlock:
			p.text(n, source)
		}
		return ast.WalkContinue, nil
	})
	if err != nil {
		return nil, err
	}
	var body bytes.Buffer
	if err := markdown.Renderer().Render(&body, source, document); err != nil {
		return nil, err
	}
	p.Body = template.HTML(body.String()) // goldmark escapes text and leaves out raw HTML
	if p.Title == "" {
		return nil, errors.New("has no heading")
	}
	return p, nil
}

// heading begins an entry of the index. The first is the page's title.
func (p *page) heading(n *ast.Heading, source []byte) {
	title := plain(n, source)
	address := file(p.name)
	if p.Title == "" {
		p.Title = title
	} else if id, ok := n.AttributeString("id"); ok {
		address += "#" + string(id.([]byte))
		title = p.Title + ": " + title
	}
	p.texts = append(p.texts, section{Page: address, Title: title})
}

// text adds a block to the last entry of the index.
func (p *page) text(n ast.Node, source []byte) {
	if len(p.texts) == 0 {
		return
	}
	last := &p.texts[len(p.texts)-1]
	last.Text = strings.TrimSpace(last.Text + " " + plain(n, source))
}

// plain returns the text of a node in one line.
func plain(n ast.Node, source []byte) string {
	var b strings.Builder
	if n.Type() == ast.TypeBlock && n.Kind() != ast.KindHeading && n.Kind() != ast.KindParagraph &&
		n.Kind() != ast.KindTextBlock {
		b.Write(n.Lines().Value(source))
	}
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // without an error of its own
		if t, ok := n.(*ast.Text); ok && entering {
			b.Write(t.Value(source))
			b.WriteByte(' ')
		}
		return ast.WalkContinue, nil
	})
	return strings.Join(strings.Fields(b.String()), " ")
}

// target returns the address of a link from a file of the repository: a page of the site, or the file in the repository.
func target(to, from string) string {
	if strings.Contains(to, "://") || strings.HasPrefix(to, "#") || strings.HasPrefix(to, "mailto:") {
		return to
	}
	path, anchor, _ := strings.Cut(to, "#")
	path = filepath.ToSlash(filepath.Join(filepath.Dir(from), path))
	if anchor != "" {
		anchor = "#" + anchor
	}
	dir := filepath.Dir(path)
	if name, ok := strings.CutSuffix(filepath.Base(path), ".md"); ok && (dir == "." || dir == "docs") {
		return file(name) + anchor
	}
	return "https://github.com/fumehood-dev/fumehood/blob/main/" + path + anchor
}
