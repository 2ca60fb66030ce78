package shared_test

import (
	"bufio"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"testing"
)

// password is that of the test's Redis. It must appear in no log.
const password = "correct-horse"

// redisServer is a Redis server of the test's own.
type redisServer struct {
	address string // redis://...
	cmd     *exec.Cmd
	ended   chan struct{}
}

func startRedis(t *testing.T) *redisServer {
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
		r := &redisServer{address: fmt.Sprintf("redis://:%s@127.0.0.1:%d/3", password, port), ended: make(chan struct{})}
		r.cmd = exec.Command(program, "--bind", "127.0.0.1", "--port", fmt.Sprint(port), "--dir", t.TempDir(), "--save", "", "--appendonly", "no", "--daemonize", "no",
			"--requirepass", password)
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
			r.cmd.Wait()
		}()
		if <-ready {
			t.Cleanup(r.kill)
			return r
		}
		<-r.ended
	}
	t.Fatal("redis-server does not start")
	return nil
}

// kill ends the server at once.
func (r *redisServer) kill() {
	r.cmd.Process.Kill() // of one that has ended: nothing happens
	<-r.ended
}
