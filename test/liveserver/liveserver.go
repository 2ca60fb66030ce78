// Package liveserver runs `fumehood serve` as a child process and connects to it over HTTP. The benchmark, the soak and
// the torture use it to test the built program from outside.
package liveserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// DefaultBinary is the output of `make build`.
const DefaultBinary = "bin/fumehood"

const (
	readyTimeout = time.Minute          // from the start of the process to its readiness, on a busy host
	abortTimeout = 5 * time.Second      // from SIGQUIT to the end
	readyPoll    = 2 * time.Millisecond // start-up is not measured
	stopTimeout  = 30 * time.Second     // for a drain, after which the server is killed
	maxClients   = 256                  // connections kept alive to one server
)

// Options configure a server's start.
type Options struct {
	Binary string    // "" is DefaultBinary
	Listen string    // a TCP address; "" is a free port of loopback
	Args   []string  // after `serve --listen ADDRESS`
	Env    []string  // added to this process's environment
	State  string    // the server's --state-dir; "" is a temporary folder
	Log    io.Writer // receives the server's output; nil keeps only its end, for error messages
}

// Server is a running server, a child of this process. Stop or Kill ends it.
type Server struct {
	URL    string
	cmd    *exec.Cmd
	client *http.Client
	output *tail
	ended  chan struct{} // closed once the process is reaped, and its temporary state removed
}

// Binary returns the absolute path of the program, by default DefaultBinary in the current folder.
func Binary(path string) (string, error) {
	if path == "" {
		path = DefaultBinary
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(abs); err != nil {
		return "", fmt.Errorf("%w; `make build` builds it", err)
	}
	return abs, nil
}

// Start starts a server on a free loopback port and waits until it is ready.
func Start(ctx context.Context, o Options) (*Server, error) {
	s, err := Launch(o)
	if err != nil {
		return nil, err
	}
	if err := s.AwaitReady(ctx); err != nil {
		s.Kill()
		return nil, err
	}
	return s, nil
}

// Launch starts a server without waiting.
func Launch(o Options) (*Server, error) {
	binary, err := Binary(o.Binary)
	if err != nil {
		return nil, err
	}
	address := o.Listen
	if address == "" {
		if address, err = FreeAddress(); err != nil {
			return nil, err
		}
	}
	s := &Server{URL: "http://" + address, output: &tail{copy: o.Log}, ended: make(chan struct{})}
	s.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: maxClients, MaxConnsPerHost: maxClients}}
	s.cmd = exec.Command(binary, append([]string{"serve", "--listen", address}, o.Args...)...)
	temporary := ""
	if o.State == "" {
		if temporary, err = os.MkdirTemp("", "fumehood-state-"); err != nil {
			return nil, err
		}
		o.State = temporary
	}
	s.cmd.Env = append(append(os.Environ(), "FUMEHOOD_STATE_DIR="+o.State, "FUMEHOOD_NO_LOCAL_SOCKET=true"), o.Env...)
	s.cmd.Stdout, s.cmd.Stderr = s.output, s.output
	// Do not wait for processes of a killed server that hold its pipe open.
	s.cmd.WaitDelay = time.Second
	// Ctrl-C at the terminal reaches only this process, which then stops the server.
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := s.cmd.Start(); err != nil {
		return nil, errors.Join(err, removeState(temporary))
	}
	go func() {
		defer close(s.ended)
		_ = s.cmd.Wait() // ProcessState has the result
		_ = removeState(temporary)
	}()
	return s, nil
}

// removeState removes a temporary folder, unless dir is empty.
func removeState(dir string) error {
	if dir == "" {
		return nil
	}
	return os.RemoveAll(dir)
}

// FreeAddress returns a loopback port that was free a moment ago.
func FreeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// AwaitReady waits until /readyz answers 200.
func (s *Server) AwaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for {
		if s.ready(ctx) {
			return nil
		}
		select {
		case <-s.ended:
			return fmt.Errorf("the server ended before it was ready (%v): %s", s.cmd.ProcessState, s.output.text())
		case <-ctx.Done():
			err := ctx.Err()
			if errors.Is(err, context.DeadlineExceeded) {
				s.abort()
			}
			return fmt.Errorf("the server is not ready (%w): %s", err, s.output.text())
		case <-time.After(readyPoll):
		}
	}
}

func (s *Server) ready(ctx context.Context) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/readyz", nil)
	if err != nil {
		return false
	}
	response, err := s.client.Do(request)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode == http.StatusOK
}

// PID returns the server's process id.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Output returns the end of the server's output.
func (s *Server) Output() string { return s.output.text() }

// Ended reports whether the process has ended.
func (s *Server) Ended() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

// Terminate asks the server to drain, without waiting.
func (s *Server) Terminate() { _ = s.cmd.Process.Signal(syscall.SIGTERM) }

// Kill ends the server at once, as a power cut would, and reaps it.
func (s *Server) Kill() {
	_ = s.cmd.Process.Kill()
	<-s.ended
	s.client.CloseIdleConnections()
}

// Stop drains the server. It returns an error if the server had to be killed, or failed.
func (s *Server) Stop() error {
	s.client.CloseIdleConnections()
	s.Terminate()
	select {
	case <-s.ended:
	case <-time.After(stopTimeout):
		s.abort()
		return errors.New("the server did not end after SIGTERM: " + s.output.text())
	}
	if !s.cmd.ProcessState.Success() {
		return fmt.Errorf("the server ended with %v: %s", s.cmd.ProcessState, s.output.text())
	}
	return nil
}

// abort ends a server that hangs. Its output shows what its goroutines wait for.
func (s *Server) abort() {
	_ = s.cmd.Process.Signal(syscall.SIGQUIT)
	select {
	case <-s.ended:
	case <-time.After(abortTimeout):
	}
	s.Kill()
}

// CloseIdle closes idle connections. A test then counts the server's descriptors without them.
func (s *Server) CloseIdle() { s.client.CloseIdleConnections() }
