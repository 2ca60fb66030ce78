package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/cli/keyfile"
	"github.com/fumehood-dev/fumehood/internal/httpd"
)

// TestCreateKey: the file or the printed line has the hash of a key, not the key.
func TestCreateKey(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys")
	create := func(args ...string) (stdout, stderr string) {
		var out, errs bytes.Buffer
		m := testApp(t).Main
		m.Stdout, m.Stderr = &out, &errs
		if code := m.Run(t.Context(), append([]string{"keys", "create"}, args...)); code != 0 {
			t.Fatalf("exit code %d: %s", code, &errs)
		}
		return out.String(), errs.String()
	}
	line, shown := create("alice", "--quiet")
	if err := os.WriteFile(file, []byte(strings.TrimSpace(line)), 0o600); err != nil {
		t.Fatal(err)
	}
	second, _ := create("bob", "--file", file)
	entries, err := keyfile.Read("--api-key-file", file)
	keys := keyfile.Keys(entries)
	if err != nil || len(keys) != 2 {
		t.Fatalf("%d keys, %v", len(keys), err)
	}
	for i, secret := range []string{regexp.MustCompile(`fhx_\S+`).FindString(shown), strings.TrimSpace(second)} {
		if same, err := httpd.NewKey(keys[i].Name, secret); err != nil || same.Hash != keys[i].Hash {
			t.Errorf("line %d is of another key: %v", i, err)
		}
	}
	made := filepath.Join(filepath.Dir(file), "new")
	create("carol", "--file", made)
	if info, err := os.Stat(made); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	code, _, errs := fumehoodWith(t, "keys", "list", "--file", made+"-missing")
	if code == 0 || !strings.Contains(errs, "--file: ") {
		t.Error(code, errs)
	}
}
