package python

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestPresent: what an installer needs to know of packages is described without their texts, and the files of one are
// found by its RECORD, whatever that says.
func TestPresent(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	folder := fstest.MapFS{
		"My_Pkg-1.0.dist-info/METADATA": file("Metadata-Version: 2.1\nName: My.Pkg\nVersion: 1.0\n" +
			"Summary: long\nRequires-Dist: numpy (>=2)\n\nName: not this\n"),
		"My_Pkg-1.0.dist-info/RECORD": file("my_pkg/__init__.py,sha256=x,3\n\"my_pkg/a,b.py\",,\n../../bin/tool,,\n" +
			"../__pycache__/x.py,,\n/etc/passwd,,\nbad\"quote\n"),
		"my_pkg/__pycache__/__init__.cpython-311.pyc": file(""),
		"my_pkg/__pycache__/other.cpython-311.pyc":    file(""),
		"huge-1.dist-info/METADATA": file("Name: huge\n" +
			strings.Repeat("Requires-Dist: x\n", 5000)),
		"empty-1.dist-info/METADATA": file(""),
	}
	want := []string{"Metadata-Version: 2.1\nName: My.Pkg\nVersion: 1.0\nRequires-Dist: numpy (>=2)\n"}
	all := []sandbox.Package{{Name: "My.Pkg", Version: "1.0"},
		{Name: "huge", Version: "1"}, {Name: "empty", Version: "1"}}
	if got := presentPackages(folder, all); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	files := filesOf(folder, []sandbox.Package{{Name: "my-pkg", Version: "1.0"}})
	for _, name := range []string{"my_pkg/__init__.py", "my_pkg/a,b.py", "my_pkg/__pycache__/__init__.cpython-311.pyc",
		"My_Pkg-1.0.dist-info/RECORD"} {
		if !slices.Contains(files, name) {
			t.Errorf("no %s in %q", name, files)
		}
	}
	if slices.Contains(files, "my_pkg/__pycache__/other.cpython-311.pyc") ||
		len(filesOf(folder, []sandbox.Package{{Name: "my-pkg", Version: "2.0"}})) > 0 {
		t.Errorf("too many: %q", files)
	}
}

// TestHostilePresent: what a package claims about its files, and how many it has, costs time and memory in proportion
// to them.
func TestHostilePresent(t *testing.T) {
	const lines, compiled = 20_000, 500
	folder := fstest.MapFS{"x-1.dist-info/RECORD": {Data: []byte(strings.Repeat("x.py\n", lines))}}
	for i := range compiled {
		folder[fmt.Sprintf("__pycache__/x.%d", i)] = &fstest.MapFile{}
		folder[fmt.Sprintf("__pycache__/y.%d", i)] = &fstest.MapFile{}
	}
	if got := filesOf(folder, []sandbox.Package{{Name: "x", Version: "1"}}); len(got) != lines+compiled+1 {
		t.Errorf("%d files", len(got))
	}
	folder = fstest.MapFS{}
	var packages []sandbox.Package
	for i := range 3000 { // of each package another spelling
		packages = append(packages, sandbox.Package{Name: fmt.Sprint("pkg", i), Version: "1"})
		folder[fmt.Sprintf("Pkg%d-1.dist-info/METADATA", i)] = &fstest.MapFile{Data: []byte("Name: a\n" +
			strings.Repeat("Requires-Dist: x\n", 700))}
		folder[fmt.Sprintf("PKG%d-2.dist-info/METADATA", i)] = &fstest.MapFile{Data: []byte("Name: a\n")}
	}
	size := 0
	for _, text := range presentPackages(folder, packages) {
		size += len(text)
	}
	if size < maxTexts/2 || size > maxTexts {
		t.Errorf("%d bytes of descriptions", size)
	}
}

// TestLongHeads: of long METADATA only a part is read: of one up to its text, and of all a number of bytes.
func TestLongHeads(t *testing.T) {
	long := strings.Repeat("a\n", maxMetadata/2)
	for text, want := range map[string]int{long: 0, "X: y\n\n" + long: 1} {
		folder := fstest.MapFS{"z-1.dist-info/METADATA": {Data: []byte("Name: z\n\n")}}
		packages := []sandbox.Package{{Name: "z", Version: "1"}}
		for i := range maxHeads / maxMetadata {
			folder[fmt.Sprintf("p%d-1.dist-info/METADATA", i)] = &fstest.MapFile{Data: []byte(text)}
			packages = append(packages, sandbox.Package{Name: fmt.Sprint("p", i), Version: "1"})
		}
		if got := presentPackages(folder, packages); len(got) != want {
			t.Errorf("%d packages are described, want %d", len(got), want)
		}
	}
}
