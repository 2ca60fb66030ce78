// Package redistest starts Redis servers for tests.
package redistest

import (
	"bufio"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"testing"
)

// Password is that of each server. It must appear in no log.
const Password = "correct-horse"

// Server is a Redis server of the test's own.
type Server struct {
	Address string // redis://...
	cmd     *exec.Cmd
	ended   chan struct{}
}

// Start starts a server that ends with the test. It skips the test where there is none.
func Start(t *testing.T) *Server {
	t.Helper()
	program, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("there is no redis-server: scripts/install-test-deps.sh --all")
	}
	for range 5 { // somebody may take the port before it does
		free, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		port := free.Addr().(*net.TCPAddr).Port
		free.Close()
		r := &Server{Address: fmt.Sprintf("redis://:%s@127.0.0.1:%d/3", Password, port), ended: make(chan struct{})}
		r.cmd = exec.Command(program, "--bind", "127.0.0.1", "--port", fmt.Sprint(port), "--dir", t.TempDir(),
			"--save", "", "--appendonly", "no", "--daemonize", "no",
			"--requirepass", Password)
		out, err := r.cmd.StdoutPipe()
		if err == nil {
			err = r.cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		ready := make(chan bool, 1)
		go func() { // ends with the server
			defer close(r.ended)
			lines := bufio.NewScanner(out)
			for lines.Scan() {
				if strings.Contains(lines.Text(), "Ready to accept connections") {
					ready <- true
				}
			}
			ready <- false
			_ = r.cmd.Wait() // it was killed
		}()
		if <-ready {
			t.Cleanup(r.Kill)
			return r
		}
		<-r.ended
	}
	t.Fatal("redis-server does not start")
	return nil
}

// Kill ends the server at once. It may be called twice.
func (r *Server) Kill() {
	r.cmd.Process.Kill() // of one that has ended: nothing happens
	<-r.ended
}
