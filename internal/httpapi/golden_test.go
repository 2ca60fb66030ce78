package httpapi_test

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/sandbox"
)

var update = flag.Bool("update", false, "write the golden responses anew")

// volatile is what differs from one run to the next.
var volatile = []struct {
	of   *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`"(id|request_id)":"[a-z2-7]{26}"`), `"$1":"ID"`},
	{regexp.MustCompile(`"(\w+_ms)":[0-9.e-]+`), `"$1":0`},
	{regexp.MustCompile(`"version":"[^"]*","standard_library":(true|false),"modules":\[[^\]]*\]`),
		`"version":"V","standard_library":$1,"modules":[]`},
	{regexp.MustCompile(`(?m)^: still running\n\n`), ""}, // a comment that only slow runs see
}

// Each file of testdata/golden is a request as it goes over the wire, a line "===", and the response: what clients
// build on. Go's own headers (Date, Content-Length, the request id) are left out. /gate holds a file for each event of
// a stream that has come.
func TestGolden(t *testing.T) {
	g := newGate(t)
	r := newRig(t, engine.Config{Backends: []sandbox.Backend{g}}, httpd.Config{})
	paths, err := filepath.Glob("testdata/golden/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatal("no golden files", err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			r := *r
			r.t = t
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			request, want, _ := strings.Cut(string(text), "===\n")
			got := r.replay(request, g)
			if *update {
				if err := os.WriteFile(path, []byte(request+"===\n"+got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != want {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}

func (r *rig) replay(request string, g *gate) string {
	r.t.Helper()
	head, body, _ := strings.Cut(request, "\n\n")
	lines := bufio.NewScanner(strings.NewReader(head))
	lines.Scan()
	method, path, _ := strings.Cut(lines.Text(), " ")
	h := header{}
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		h[name] = value
	}
	res, err := r.ask(method, path, strings.TrimSpace(body), h)
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	text := ""
	for in := bufio.NewReader(res.Body); err == nil; {
		var line string
		line, err = in.ReadString('\n')
		text += line
		if id, ok := strings.CutPrefix(line, "id: "); ok {
			g.open(r.t, strings.TrimSpace(id))
		}
	}
	if err != io.EOF {
		r.t.Fatal(err)
	}
	var out strings.Builder
	fmt.Fprintln(&out, res.StatusCode)
	var names []string
	for name := range res.Header {
		if !slices.Contains([]string{"Date", "Content-Length", http.CanonicalHeaderKey("X-Request-Id"), api.HeaderRun},
			name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(&out, "%s: %s\n", name, res.Header.Get(name))
	}
	for _, v := range volatile {
		text = v.of.ReplaceAllString(text, v.with)
	}
	fmt.Fprintf(&out, "\n%s", text)
	return out.String()
}
