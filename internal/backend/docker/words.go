package docker

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"github.com/glovebox-dev/glovebox/sandbox"
)

// isGone says whether nobody took the call: the engine is not there, or not yet again. The client calls every failure of the transport
// one of the connection; one in the middle of a call is not meant here.
func isGone(err error) bool {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || strings.Contains(err.Error(), "permission denied") {
		return false
	}
	return client.IsErrConnectionFailed(err)
}

// isCut says whether the call may or may not have been taken.
func isCut(err error) bool {
	for _, cause := range []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(err, cause) {
			return true
		}
	}
	return client.IsErrConnectionFailed(err) && !strings.Contains(err.Error(), "permission denied")
}

// title is the engine's name for people.
func (e *engine) title() string {
	if e.options.Name == Podman {
		return "Podman"
	}
	return "Docker"
}

func (e *engine) error(kind sandbox.Kind, msg, fix string) *sandbox.Error {
	return &sandbox.Error{Kind: kind, Op: e.options.Name + ": reach the engine", Msg: msg, Fix: fix}
}

// absent says why an engine could not be met.
func (e *engine) absent(at *endpoint, err error) error {
	where := fmt.Sprintf("at %s (%s)", at.host, at.why)
	var late hangs
	if path := at.unixPath(); path != "" { // the client's words hide what the system said
		conn, dialErr := net.DialTimeout("unix", path, pingTimeout)
		if dialErr == nil {
			conn.Close()
		}
		switch {
		case errors.Is(dialErr, fs.ErrPermission):
			return e.error(sandbox.Unavailable, "this user may not use the engine's socket "+path, e.permissionFix())
		case errors.Is(dialErr, fs.ErrNotExist), errors.Is(dialErr, syscall.ECONNREFUSED):
			return e.error(sandbox.Unavailable, "no engine answers "+where, e.startFix())
		}
	}
	switch {
	case errors.As(err, &late):
		return e.error(sandbox.Unavailable, fmt.Sprintf("the engine %s took the call and did not answer within %v: it hangs", where, time.Duration(late)), e.restartFix())
	case strings.Contains(err.Error(), "minimum supported API version"), strings.Contains(err.Error(), "is not supported by this client"):
		return e.error(sandbox.Unsupported, fmt.Sprintf("the engine %s is too old: %v", where, err), "install "+e.title()+" of "+oldest[e.title()]+" or newer")
	case client.IsErrConnectionFailed(err):
		return e.error(sandbox.Unavailable, "no engine answers "+where+": "+err.Error(), e.startFix())
	}
	return e.error(sandbox.Unavailable, fmt.Sprintf("what answers %s is no engine that can be used: %v", where, err), e.startFix())
}

// oldest are the first versions with version 1.40 of the API, the least that the client speaks.
var oldest = map[string]string{"Docker": "version 19.03", "Podman": "version 3.0"}

func (e *engine) startFix() string { return startFix(e.options.Name, runtime.GOOS) }

func startFix(name, system string) string {
	switch {
	case name == Podman && system != "linux":
		return "start its virtual machine: podman machine start, after podman machine init the first time; then name its socket with CONTAINER_HOST: " +
			"unix:// before what podman machine inspect --format '{{.ConnectionInfo.PodmanSocket.Path}}' says; to install it: https://podman.io/docs/installation"
	case system != "linux":
		return "start Docker Desktop; or name another engine with DOCKER_HOST or docker context use; to install it: https://docs.docker.com/get-started/get-docker"
	case name == Podman:
		return "start its socket: systemctl --user enable --now podman.socket (as root: systemctl enable --now podman.socket); " +
			"or name it with CONTAINER_HOST; install it from your distribution's package podman"
	}
	return "start it: sudo systemctl start docker, or Docker Desktop; or name it with DOCKER_HOST or docker context use; to install it: https://docs.docker.com/engine/install"
}

func (e *engine) restartFix() string {
	if runtime.GOOS != "linux" {
		return map[string]string{Name: "restart Docker Desktop", Podman: "restart its virtual machine: podman machine stop; podman machine start"}[e.options.Name]
	}
	if e.options.Name == Podman {
		return "restart it: systemctl --user restart podman.socket podman.service"
	}
	return "restart it: sudo systemctl restart docker"
}

func (e *engine) permissionFix() string {
	if e.options.Name == Podman {
		return "use this user's own: systemctl --user enable --now podman.socket"
	}
	return "join the group docker, sudo usermod -aG docker $USER, and log in again (who is in it is as good as root); or use Podman, which needs no such right"
}

func (to *connection) hangs(step string, bound time.Duration) error {
	return &sandbox.Error{Kind: sandbox.Unavailable, Op: to.engine.options.Name + ": " + step,
		Msg: fmt.Sprintf("the engine did not answer within %v", bound), Fix: to.engine.restartFix()}
}

// explain says what an engine's refusal means, where more is known than its words.
func (to *connection) explain(step string, err error) error {
	e := to.engine
	if isGone(err) {
		return e.absent(to.endpoint, err)
	}
	if isCut(err) {
		return &sandbox.Error{Kind: sandbox.Unavailable, Op: e.options.Name + ": " + step, Msg: "the engine hung up in the middle of the call", Fix: e.restartFix(), Err: err}
	}
	refusal := &sandbox.Error{Kind: sandbox.Unavailable, Op: e.options.Name + ": " + step, Err: err}
	if errdefs.IsInvalidArgument(err) {
		refusal.Kind = sandbox.Invalid
	}
	text := err.Error()
	switch {
	case strings.Contains(text, "unknown or invalid runtime name"), strings.Contains(text, "Unknown runtime specified"), strings.Contains(text, "not found in $PATH") && strings.Contains(text, "runtime"):
		refusal.Kind, refusal.Msg = sandbox.Unsupported, "the engine has no runtime "+e.options.Runtime
		refusal.Fix = "install it and name it in the engine's configuration, or leave the runtime out"
	case strings.Contains(text, "bind source path does not exist"):
		refusal.Kind, refusal.Msg = sandbox.Unsupported, "the engine does not see this host's files"
		refusal.Fix = "send files along with --file, or use an engine on this host"
	}
	return refusal
}
