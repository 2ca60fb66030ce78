package packages

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestRequestKey: all that a survey sees makes another key, and nothing else does.
func TestRequestKey(t *testing.T) {
	r := newRig(t)
	key := func(change func(*sandbox.PackageNeed, *Index)) string {
		need, index := r.need(sandbox.Packages{Auto: true, Requirements: []string{"ab", "c"}}), Index{URL: "u"}
		need.Name, need.Code, need.Root = "n", []byte("code"), sandbox.Root{Image: "i", Digest: "d"}
		need.Files = []sandbox.File{{Path: "a", Data: []byte("x\x00y")}, {Path: "b", Data: make([]byte, 2<<20)}}
		change(&need, &index)
		return requestKey(&need, index)
	}
	same := key(func(n *sandbox.PackageNeed, _ *Index) {
		slices.Reverse(n.Files)
		n.Root.Image = "another name"
		n.Lowered.MemoryBytes = 8 << 30 // more than any step has
	})
	keys := map[string]string{"nothing": key(func(*sandbox.PackageNeed, *Index) {})}
	for name, change := range map[string]func(*sandbox.PackageNeed, *Index){
		"language":     func(n *sandbox.PackageNeed, _ *Index) { n.Language.Name = "m" },
		"index":        func(_ *sandbox.PackageNeed, i *Index) { i.URL = "v" },
		"build":        func(n *sandbox.PackageNeed, _ *Index) { n.AllowBuild = true },
		"auto":         func(n *sandbox.PackageNeed, _ *Index) { n.Auto = false },
		"image":        func(n *sandbox.PackageNeed, _ *Index) { n.Root.Digest = "e" },
		"its settings": func(n *sandbox.PackageNeed, _ *Index) { n.Root.Settings = "s" },
		"present": func(n *sandbox.PackageNeed, _ *Index) {
			n.Present = &sandbox.PresentPackages{Packages: []sandbox.Package{{Name: "p", Version: "1"}}}
		},
		"its text": func(n *sandbox.PackageNeed, _ *Index) {
			n.Present = &sandbox.PresentPackages{Packages: []sandbox.Package{{Name: "p", Version: "1"}},
				Texts: []string{"Requires-Dist: q"}}
		},
		"name of it":   func(n *sandbox.PackageNeed, _ *Index) { n.Root.Digest = "" },
		"another":      func(n *sandbox.PackageNeed, _ *Index) { n.Root = sandbox.Root{Image: "j"} },
		"dir":          func(n *sandbox.PackageNeed, _ *Index) { n.Root = sandbox.Root{Dir: "/i"} },
		"requirements": func(n *sandbox.PackageNeed, _ *Index) { n.Requirements = []string{"a", "bc"} },
		"fewer":        func(n *sandbox.PackageNeed, _ *Index) { n.Requirements = []string{"ab"} },
		"lock":         func(n *sandbox.PackageNeed, _ *Index) { n.Lock = "l" },
		"name":         func(n *sandbox.PackageNeed, _ *Index) { n.Name = "m" },
		"code":         func(n *sandbox.PackageNeed, _ *Index) { n.Code = []byte("cod") },
		"data":         func(n *sandbox.PackageNeed, _ *Index) { n.Files[0].Data = []byte("x\x00z") },
		"path":         func(n *sandbox.PackageNeed, _ *Index) { n.Files[0].Path = "c" },
		"large":        func(n *sandbox.PackageNeed, _ *Index) { n.Files[1].Data[2<<20-1] = 1 },
		"low memory":   func(n *sandbox.PackageNeed, _ *Index) { n.Lowered.MemoryBytes = 64 << 20 },
		"few pids":     func(n *sandbox.PackageNeed, _ *Index) { n.Lowered.Pids = 9 },
		"files":        func(n *sandbox.PackageNeed, _ *Index) { n.Files = n.Files[:1] },
	} {
		keys[name] = key(change)
	}
	distinct := map[string]bool{}
	for k := range maps.Values(keys) {
		distinct[k] = true
	}
	if len(distinct) != len(keys) || same != keys["nothing"] {
		t.Errorf("%d keys of %d; the order of files or the image's name matters: %v", len(distinct), len(keys),
			same != keys["nothing"])
	}
	named := func(name, password string) string {
		return key(func(_ *sandbox.PackageNeed, i *Index) { i.URL = "https://" + name + ":" + password + "@h/simple" })
	}
	if named("u", "one") != named("u", "two") || named("u", "one") == named("v", "one") {
		t.Error("a key has a password, or no user")
	}
	if open := key(func(n *sandbox.PackageNeed, _ *Index) { n.Open = true }); open != "" {
		t.Error("a run whose files are unknown has a key")
	}
}

// TestStatedImports: codes whose imports the host can determine share a key if the imports are equal; files change the
// key.
func TestStatedImports(t *testing.T) {
	r := newRig(t)
	key := func(code, name string, files ...sandbox.File) string {
		need := r.need(sandbox.Packages{Auto: true})
		need.Code, need.Name, need.Files = []byte(code), name, files
		need.Language.Installer.Imports = func(code []byte) (found []sandbox.Import) {
			for _, word := range strings.Fields(string(code)) {
				found = append(found, sandbox.Import{Name: word, Line: len(code), Optional: word == "may"})
			}
			return found
		}
		return requestKey(&need, Index{})
	}
	if key("b a", "n") != key("a\n\nb b", "n") {
		t.Error("the order or the place of imports matters")
	}
	file := sandbox.File{Path: "a"}
	distinct := map[string]bool{}
	for _, k := range []string{key("a b", "n"), key("a", "n"), key("a", "m"), key("ab", "n"), key("a may", "n"),
		key("a", "n", file), key(" a", "n", file), key("", "n"), key(" ", "n")} {
		distinct[k] = true
	}
	if len(distinct) != 9 {
		t.Errorf("%d keys of 9", len(distinct))
	}
}
