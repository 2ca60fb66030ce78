package main

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestInstallInside: in a sandbox that may reach an index, installers work as in a terminal of one's own: the packages
// are there at once, in contexts, in commands, and in the code that installed them.
func TestInstallInside(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED, NOT TESTED: it takes a minute")
	}
	isNetworkReady(t)
	i := newIndex(t)
	for _, name := range []string{"first", "second", "third"} {
		i.wheel(name, "1.0", "value = '"+name+"'", "")
	}
	i.pack("tool", "1.0.0", map[string]string{"index.js": "module.exports = 42"}, map[string]string{})
	s := startServerWith(t, func(m *Main) { m.Gate = i.gate }, "--backend", "native", "--allow-unenforced", "memory",
		"--no-packages", "--warm", "1",
		"--network-allow", "public,index.test,10.9.8.7")
	c := &commands{t, s.url}
	const from = "--index-url http://index.test/simple --trusted-host index.test "
	c.run(0, "", "create", "--name", "a", "--allow", "index.test,10.9.8.7", "-e",
		"npm_config_registry=http://index.test/", "-e", "PIP_INDEX_URL=http://index.test/simple",
		"-e", "PIP_TRUSTED_HOST=index.test")

	c.run(0, "", "run", "--in", "a", "-c", "x = 1") // the interpreter runs before anything is installed
	c.run(0, "", "exec", "a", "--", "pip", "install", "--no-deps", "first")
	c.prints("first\n", "run", "--in", "a", "-c", "import first; print(first.value)")
	c.prints("/home/agent/.local/lib/python3\n", "run", "--in", "a", "-c",
		"print(first.__file__.partition('.')[0] + '.local/lib/python3')")
	c.prints("first\n", "exec", "a", "--", "python3", "-c", "import first; print(first.value)")
	within := "import subprocess, sys\nsubprocess.run([sys.executable, '-m', 'pip', 'install', '-q', %s'%s'], " +
		"check=True)\nimport %s; print(%[2]s.value)"
	c.prints("second\n", "run", "--in", "a", "-c", fmt.Sprintf(within, "", "second", "second"))
	c.prints("third\n", "run", "--in", "a", "-c", "!pip install -q third\nimport third; print(third.value)")

	words := "'" + strings.ReplaceAll(strings.TrimSpace(from), " ", "', '") + "', "
	request, err := json.Marshal(map[string]any{"language": "python", "network": map[string]any{"allow": []string{
		"index.test", "10.9.8.7"}}, "code": fmt.Sprintf(within, words, "first", "first")})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // also in a fork of an interpreter that started earlier
		if _, body := s.post(t, "/v1/run", string(request)); body["stdout"] != "first\n" {
			t.Errorf("a fresh sandbox: %v", body)
		}
	}
	if _, err := exec.LookPath("/usr/bin/npm"); err != nil {
		t.Skip("no npm")
	}
	c.run(0, "", "exec", "a", "--", "npm", "install", "-g", "tool")
	c.prints("42\n", "exec", "a", "--", "node", "-p", "require('tool')")
	c.prints("42\n", "run", "--in", "a", "-l", "javascript", "-c", "console.log(require('tool'))")
}

// TestPrivateAuthority: an authority in the certificates of the root counts for programs with certificates of their
// own.
func TestPrivateAuthority(t *testing.T) {
	isNetworkReady(t)
	k := newKeeper(t)
	bundle := filepath.Join(t.TempDir(), "bundle.pem")
	if err := os.WriteFile(bundle, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: k.Certificate().Raw}),
		0o644); err != nil {
		t.Fatal(err)
	}
	const usual = "/etc/ssl/certs/ca-certificates.crt"
	if _, err := os.Stat(usual); err != nil {
		t.Skip("this host keeps its certificates elsewhere")
	}
	var out bytes.Buffer
	m := testApp(t).Main
	m.Stdout, m.Stderr, m.Gate = &out, &out, k.gate()
	m.Run(context.Background(), []string{"run", "--backend", "native", "--allow-unenforced", "memory",
		"--allow", "example.com", "-v", bundle + ":" + usual, "-l", "bash", "-c", `
			node -e 'fetch("https://example.com/").then(r => console.log("node", r.status))'
			python3 -c 'import urllib.request as u; print("python", u.urlopen("https://example.com/").status)'
			curl -sS -o /dev/null -w "curl %{http_code}\n" https://example.com/`})
	if out.String() != "node 200\npython 200\ncurl 200\n" {
		t.Errorf("%s", &out)
	}
}
