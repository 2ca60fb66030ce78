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

	"github.com/fumehood-dev/fumehood/sandbox"
)

// isUnreachable reports whether the engine was unreachable, so that it did not receive the call. The client calls every
// transport failure a connection failure; one in the middle of a call does not count here.
func isUnreachable(err error) bool {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) ||
		strings.Contains(err.Error(), "permission denied") {
		return false
	}
	return client.IsErrConnectionFailed(err)
}

// isInterrupted reports whether the engine may or may not have received the call.
func isInterrupted(err error) bool {
	for _, cause := range []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(err, cause) {
			return true
		}
	}
	return client.IsErrConnectionFailed(err) && !strings.Contains(err.Error(), "permission denied")
}

func (e *engine) title() string {
	if e.options.Name == Podman {
		return "Podman"
	}
	return "Docker"
}

func (e *engine) error(kind sandbox.Kind, msg, fix string) *sandbox.Error {
	return &sandbox.Error{Kind: kind, Op: e.options.Name + ": reach the engine", Msg: msg, Fix: fix}
}

// absent explains why no connection to an engine was possible.
func (e *engine) absent(at *endpoint, err error) error {
	where := fmt.Sprintf("at %s (%s)", at.host, at.why)
	var late hangs
	if path := at.unixPath(); path != "" { // the client's message hides the system's error
		conn, dialErr := net.DialTimeout("unix", path, pingTimeout)
		if dialErr == nil {
			conn.Close()
		}
		switch {
		case errors.Is(dialErr, fs.ErrPermission):
			return e.error(sandbox.Unavailable, "permission denied: the engine's socket "+path, e.permissionFix())
		case errors.Is(dialErr, fs.ErrNotExist), errors.Is(dialErr, syscall.ECONNREFUSED):
			return e.error(sandbox.Unavailable, "no engine answers "+where, e.startFix())
		}
	}
	switch {
	case errors.As(err, &late):
		return e.error(sandbox.Unavailable, fmt.Sprintf("the engine %s hangs: it did not answer within %v", where,
			time.Duration(late)), e.restartFix())
	case strings.Contains(err.Error(), "minimum supported API version"), strings.Contains(err.Error(),
		"is not supported by this client"):
		return e.error(sandbox.Unsupported, fmt.Sprintf("the engine %s is too old: %v", where, err),
			"install "+e.title()+" "+oldest[e.title()]+" or newer")
	case client.IsErrConnectionFailed(err):
		return e.error(sandbox.Unavailable, "no engine answers "+where+": "+err.Error(), e.startFix())
	}
	return e.error(sandbox.Unavailable, fmt.Sprintf("the server %s is not a usable engine: %v", where, err),
		e.startFix())
}

// oldest lists the first versions with API version 1.40, the oldest that the client supports.
var oldest = map[string]string{"Docker": "version 19.03", "Podman": "version 3.0"}

func (e *engine) startFix() string { return startFix(e.options.Name, runtime.GOOS) }

func startFix(name, system string) string {
	switch {
	case name == Podman && system != "linux":
		return "podman machine start (the first time after podman machine init); then set CONTAINER_HOST to " +
			"unix://$(podman machine inspect --format '{{.ConnectionInfo.PodmanSocket.Path}}'); to install it: " +
			"https://podman.io/docs/installation"
	case system != "linux":
		return "start Docker Desktop; or set DOCKER_HOST; to install it: https://docs.docker.com/get-started/get-docker"
	case name == Podman:
		return "start it: systemctl --user enable --now podman.socket (as root: systemctl enable --now " +
			"podman.socket); or set CONTAINER_HOST; to install it, use your distribution's package podman"
	}
	return "sudo systemctl start docker, or start Docker Desktop; or set DOCKER_HOST; to install it: " +
		"https://docs.docker.com/engine/install"
}

func (e *engine) restartFix() string {
	if runtime.GOOS != "linux" {
		return map[string]string{Name: "restart Docker Desktop",
			Podman: "podman machine stop; podman machine start"}[e.options.Name]
	}
	if e.options.Name == Podman {
		return "systemctl --user restart podman.socket podman.service"
	}
	return "sudo systemctl restart docker"
}

func (e *engine) permissionFix() string {
	if e.options.Name == Podman {
		return "use your own engine: systemctl --user enable --now podman.socket"
	}
	return "sudo usermod -aG docker $USER, then log in again (the group docker is as powerful as root); or use " +
		"Podman, which needs no such right"
}

func (to *connection) hangs(step string, bound time.Duration) error {
	return &sandbox.Error{Kind: sandbox.Unavailable, Op: to.engine.options.Name + ": " + step,
		Msg: fmt.Sprintf("the engine did not answer within %v", bound), Fix: to.engine.restartFix()}
}

// explain translates an engine's refusal where its cause is known.
func (to *connection) explain(step string, err error) error {
	e := to.engine
	if isUnreachable(err) {
		return e.absent(to.endpoint, err)
	}
	if isInterrupted(err) {
		return &sandbox.Error{Kind: sandbox.Unavailable, Op: e.options.Name + ": " + step,
			Msg: "the engine closed the connection during the call", Fix: e.restartFix(), Err: err}
	}
	refusal := &sandbox.Error{Kind: sandbox.Unavailable, Op: e.options.Name + ": " + step, Err: err}
	if errdefs.IsInvalidArgument(err) {
		refusal.Kind = sandbox.Invalid
	}
	text := err.Error()
	switch {
	case strings.Contains(text, "unknown or invalid runtime name"), strings.Contains(text, "Unknown runtime specified"),
		strings.Contains(text, "not found in $PATH") && strings.Contains(text, "runtime"):
		refusal.Kind, refusal.Msg = sandbox.Unsupported, "the engine has no runtime "+e.options.Runtime
		refusal.Fix = "install it and add it to the engine's configuration, or leave the runtime out"
	case strings.Contains(text, "bind source path does not exist"):
		refusal.Kind, refusal.Msg = sandbox.Unsupported, "the engine does not see this host's files"
		refusal.Fix, refusal.Fixes = "use an engine on this host", []sandbox.Hint{sandbox.FixSendFile}
	}
	return refusal
}
