package docker

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// endpoint is the address of an engine and its TLS settings.
type endpoint struct {
	host string // "unix:///run/docker.sock", "tcp://host:2376", "npipe:////./pipe/docker_engine"
	why  string // source of the address, for error messages

	// The folder of ca.pem, cert.pem and key.pem; "" is no TLS. Without verify the engine's certificate is not checked,
	// as a docker context may request.
	certs  string
	verify bool
}

// unixPath is the path of a unix socket, or "" for other addresses.
func (e *endpoint) unixPath() string {
	path, is := strings.CutPrefix(e.host, "unix://")
	if !is {
		return ""
	}
	return path
}

// find searches for the engine like its own programs: the environment, the current context, the usual places.
func find(o *Options) (*endpoint, error) {
	env := func(name string) string {
		if value, ok := o.LookupEnv(name); ok {
			return value
		}
		return ""
	}
	if o.Host != "" {
		return withTLS(&endpoint{host: o.Host, why: "the configuration"}, env)
	}
	if o.Name == Podman {
		return findPodman(env), nil
	}
	if host := env("DOCKER_HOST"); host != "" {
		return withTLS(&endpoint{host: host, why: "DOCKER_HOST"}, env)
	}
	config := env("DOCKER_CONFIG")
	if config == "" {
		config = filepath.Join(home(env), ".docker")
	}
	name := env("DOCKER_CONTEXT")
	if name == "" {
		name = currentContext(config)
	}
	if name != "" && name != "default" {
		return readContext(config, name)
	}
	return &endpoint{host: defaultHost, why: "the usual place"}, nil
}

func home(env func(string) string) string {
	for _, name := range []string{"HOME", "USERPROFILE"} {
		if dir := env(name); dir != "" {
			return dir
		}
	}
	return ""
}

// withTLS adds the environment's certificate settings (docs.docker.com, "Protect the Docker daemon socket").
func withTLS(e *endpoint, env func(string) string) (*endpoint, error) {
	if strings.HasPrefix(e.host, "ssh://") {
		return nil, noSSH(e)
	}
	if e.unixPath() != "" {
		return e, nil
	}
	e.verify = env("DOCKER_TLS_VERIFY") != ""
	if e.certs = env("DOCKER_CERT_PATH"); e.certs == "" && e.verify {
		e.certs = filepath.Join(home(env), ".docker")
	}
	return e, nil
}

func noSSH(e *endpoint) error {
	return &sandbox.Error{Kind: sandbox.Unsupported, Op: "docker: find engine",
		Msg: e.host + " (" + e.why + ") needs ssh, which Fumehood does not support",
		Fix: "ssh -nNT -L $HOME/docker.sock:/var/run/docker.sock HOST & export DOCKER_HOST=unix://$HOME/docker.sock"}
}

func findPodman(env func(string) string) *endpoint {
	if host := env("CONTAINER_HOST"); host != "" {
		return &endpoint{host: host, why: "CONTAINER_HOST"}
	}
	if dir := env("XDG_RUNTIME_DIR"); dir != "" {
		own := filepath.Join(dir, "podman", "podman.sock")
		if info, err := os.Stat(own); err == nil && isOurs(info) { // su leaves root the previous user's variable
			return &endpoint{host: "unix://" + own, why: "this user's own"}
		}
	}
	return &endpoint{host: podmanHost, why: "the usual place"}
}

// currentContext is the current docker context, or "".
func currentContext(config string) string {
	text, err := os.ReadFile(filepath.Join(config, "config.json"))
	if err != nil {
		return ""
	}
	var file struct{ CurrentContext string }
	if json.Unmarshal(text, &file) != nil {
		return ""
	}
	return file.CurrentContext
}

// readContext reads a docker context as `docker context create` writes it: below a folder named after its name's
// digest.
func readContext(config, name string) (*endpoint, error) {
	sum := sha256.Sum256([]byte(name))
	folder := hex.EncodeToString(sum[:])
	path := filepath.Join(config, "contexts", "meta", folder, "meta.json")
	bad := func(err error) error {
		return &sandbox.Error{Kind: sandbox.Unavailable, Op: "docker: find engine",
			Msg: "the docker context " + name + " cannot be read: " + err.Error(),
			Fix: "docker context use default; or set DOCKER_HOST"}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, bad(err)
	}
	var meta struct {
		Endpoints map[string]struct {
			Host          string
			SkipTLSVerify bool
		}
	}
	if err := json.Unmarshal(text, &meta); err != nil {
		return nil, bad(err)
	}
	found := meta.Endpoints["docker"]
	if found.Host == "" {
		return nil, bad(errors.New("it has no engine"))
	}
	e := &endpoint{host: found.Host, why: "docker context " + name, verify: !found.SkipTLSVerify}
	if strings.HasPrefix(e.host, "ssh://") {
		return nil, noSSH(e)
	}
	certs := filepath.Join(config, "contexts", "tls", folder, "docker")
	if _, err := os.Stat(certs); err == nil {
		e.certs = certs
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, bad(err)
	}
	return e, nil
}
