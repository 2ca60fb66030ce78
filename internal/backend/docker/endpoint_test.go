package docker

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/sandbox"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestFind: the engine is found where its own programs look.
func TestFind(t *testing.T) {
	home, run := t.TempDir(), t.TempDir()
	config := filepath.Join(home, ".docker")
	sum := sha256.Sum256([]byte("far"))
	folder := hex.EncodeToString(sum[:])
	write(t, filepath.Join(config, "contexts", "meta", folder, "meta.json"),
		`{"Name":"far","Metadata":{},"Endpoints":{"docker":{"Host":"tcp://far:2376","SkipTLSVerify":false}}}`)
	certs := filepath.Join(config, "contexts", "tls", folder, "docker")
	write(t, filepath.Join(certs, "ca.pem"), "")
	own := filepath.Join(run, "podman", "podman.sock")
	type env map[string]string
	try := func(name, engine string, variables env, current string, want endpoint) {
		t.Helper()
		write(t, filepath.Join(config, "config.json"), `{"currentContext":"`+current+`","auths":{}}`)
		e, err := find(&Options{Name: engine, LookupEnv: func(v string) (string, bool) {
			if v == "HOME" {
				return home, true
			}
			value, ok := variables[v]
			return value, ok
		}})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
		want.why = e.why
		if *e != want || e.why == "" {
			t.Errorf("%s: got %+v, want %+v", name, *e, want)
		}
	}
	try("nothing said", Name, nil, "", endpoint{host: defaultHost})
	try("DOCKER_HOST", Name, env{"DOCKER_HOST": "unix:///x"}, "far", endpoint{host: "unix:///x"})
	try("the context in use", Name, nil, "far", endpoint{host: "tcp://far:2376", certs: certs, verify: true})
	try("DOCKER_CONTEXT", Name, env{"DOCKER_CONTEXT": "default"}, "far", endpoint{host: defaultHost})
	try("TLS", Name, env{"DOCKER_HOST": "tcp://x:2376", "DOCKER_TLS_VERIFY": "1"}, "",
		endpoint{host: "tcp://x:2376", certs: config, verify: true})
	try("certificates", Name, env{"DOCKER_HOST": "tcp://x:2376", "DOCKER_CERT_PATH": "/c"}, "",
		endpoint{host: "tcp://x:2376", certs: "/c"})
	try("DOCKER_CONFIG", Name, env{"DOCKER_CONFIG": filepath.Join(home, "other")}, "far", endpoint{host: defaultHost})
	try("podman", Podman, env{"DOCKER_HOST": "unix:///x", "XDG_RUNTIME_DIR": run}, "far", endpoint{host: podmanHost})
	try("CONTAINER_HOST", Podman, env{"CONTAINER_HOST": "unix:///y", "XDG_RUNTIME_DIR": run}, "",
		endpoint{host: "unix:///y"})
	write(t, own, "")
	try("the user's podman", Podman, env{"XDG_RUNTIME_DIR": run}, "", endpoint{host: "unix://" + own})
	if os.Geteuid() == 0 {
		if err := os.Chown(own, 65533, 65533); err != nil {
			t.Fatal(err)
		}
		try("another user's podman", Podman, env{"XDG_RUNTIME_DIR": run}, "", endpoint{host: podmanHost})
	}

	for _, o := range []Options{
		{Name: Name, LookupEnv: func(v string) (string, bool) { return "ssh://far", v == "DOCKER_HOST" }},
		{Name: Name, LookupEnv: func(v string) (string, bool) { return "nobody", v == "DOCKER_CONTEXT" }},
	} {
		if e, err := find(&o); err == nil || sandbox.FixOf(err) == "" || !strings.Contains(sandbox.FixOf(err),
			"DOCKER_HOST") {
			t.Errorf("got %+v, %v", e, err)
		}
	}
}
