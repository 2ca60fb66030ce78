package main

import (
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/test/backendtest"
)

// TestPackagesAreAdded: what a living sandbox has is neither downloaded nor installed again for further packages, which
// are resolved against it. Another version of a package replaces only that package.
func TestPackagesAreAdded(t *testing.T) {
	backendtest.ForCheck(t, "six installations")
	isPackagesReady(t, pipFile)
	i := newIndex(t)
	i.wheel("glvbase", "1.0", "value = 1", "")
	i.wheel("glvfirst", "1.0", "import glvbase; value = glvbase.value", "", "glvbase<2")
	i.wheel("glvbase", "2.0", "value = 2", "")
	i.wheel("glvsecond", "1.0", "import glvbase; value = glvbase.value + 1", "", "glvbase")
	i.wheel("glvclash", "1.0", "", "", "glvbase>=2")
	s := startServerWith(t, func(m *Main) { m.Gate = i.gate }, "--backend", "native", "--allow-unenforced", "memory",
		"--package-cache", t.TempDir(), "--package-index", "python=http://index.test/simple")
	c := &commands{t, s.url}
	c.run(0, "", "create", "--name", "a")
	c.prints("1\n", "run", "--in", "a", "-c", "%pip install glvfirst\nimport glvfirst; glvfirst.value")
	c.prints("2\n", "run", "--in", "a", "-c", "%pip install glvsecond\nimport glvsecond; glvsecond.value")
	for part, want := range map[string]int{"glvfirst": 1, "glvbase-1": 1, "glvbase-2": 0, "glvsecond": 1} {
		if n := i.downloads(part); n != want {
			t.Errorf("%s was downloaded %d times, not %d", part, n, want)
		}
	}
	if out, _ := c.run(0, "", "run", "--in", "a", "--json", "-c", "%pip install glvsecond\n1"); strings.Count(out,
		`"name": "glv`) != 3 {
		t.Errorf("the answer does not list the packages: %s", out)
	}
	if _, errs := c.run(125, "", "run", "--in", "a", "-c", "%pip install glvclash"); !strings.Contains(errs,
		"glvbase") {
		t.Errorf("a conflict with what is there: %s", errs)
	}
	c.run(0, "", "run", "--in", "a", "-c", "%mkdir -p sub\nopen('all.txt', 'w').write('-r sub/more.txt\\n')\n"+
		"open('sub/more.txt', 'w').write('glvlisted==1.0  # note\\n')")
	i.wheel("glvlisted", "1.0", "value = 5", "")
	c.prints("5\n", "run", "--in", "a", "-c", "%pip install -q -r all.txt\nimport glvlisted; glvlisted.value")
	i.wheel("glvlisted", "1.1", "value = 6", "")
	c.prints("6\n", "run", "--in", "a", "-c", "%pip install -U glvlisted\n!python3 -c 'import glvlisted as g; print(g.value)'")
	if _, errs := c.run(125, "", "run", "--in", "a", "-c", "%pip install -r none.txt"); !strings.Contains(errs,
		`/workspace/none.txt" do not exist`) {
		t.Errorf("a missing file: %s", errs)
	}
	if _, errs := c.run(1, "", "run", "--in", "a", "-c", "%pip uninstall -y glvlisted"); !strings.Contains(errs,
		"cannot be uninstalled") {
		t.Errorf("uninstall: %s", errs)
	}
	i.wheel("glvsecond", "2.0", "value = 20", "")
	before := i.downloads("glvfirst") + i.downloads("glvbase")
	c.prints("20 1 1\n", "run", "--in", "a", "-c", "%pip install glvsecond==2.0\n!python3 -c 'import glvsecond, glvfirst, "+
		"importlib.metadata as m; print(glvsecond.value, glvfirst.value, sum(d.name == \"glvsecond\" for d in m.distributions()))'")
	if n := i.downloads("glvfirst") + i.downloads("glvbase"); n != before {
		t.Errorf("another version of one package: %d downloads of others", n-before)
	}
}
