package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestServeAfterKill: a server starts although the last child of a killed one still holds its address: a port, which it
// waits for, or a socket, whose listener has ended.
func TestServeAfterKill(t *testing.T) {
	hold := func(t *testing.T, address string, seconds string) {
		listens := exec.Command("python3", "-c", `import socket, subprocess, sys
if sys.argv[1].startswith("/"):
    s = socket.socket(socket.AF_UNIX)
    s.bind(sys.argv[1])
else:
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind(("127.0.0.1", int(sys.argv[1])))
s.listen()
print(subprocess.Popen(["sleep", sys.argv[2]], pass_fds=[s.fileno()], stdout=-3, stderr=-3).pid)`,
			address, seconds)
		out, err := listens.Output()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = exec.Command("kill", strings.TrimSpace(string(out))).Run() }) // unless it has ended
	}
	works := func(t *testing.T, s *served) {
		if code, answer := s.post(t, "/v1/run", `{"language":"bash","code":"echo in",`+weaker+`}`); code != 200 ||
			answer["stdout"] != "in\n" {
			t.Errorf("%d %v", code, answer)
		}
	}
	t.Run("port", func(t *testing.T) {
		free, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		address := free.Addr().String()
		free.Close()
		_, port, _ := net.SplitHostPort(address)
		hold(t, port, "0.5")
		s := startServer(t, "--listen", address)
		if !strings.Contains(s.said.String(), address+" is in use; waiting") {
			t.Errorf("it said:\n%s", s.said)
		}
		works(t, s)
	})
	t.Run("socket", func(t *testing.T) {
		dir, err := os.MkdirTemp("", "fhx") // t.TempDir is too long for a socket
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
		path := filepath.Join(dir, "sock")
		hold(t, path, "100")
		l, err := listen("unix:"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
	})
}
