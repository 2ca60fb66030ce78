package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"

	"github.com/fumehood-dev/fumehood/client"
)

// floorRole is the first argument of a process that answers runs in contexts without a sandbox, a protocol or a log.
// It prints its URL, and ends with its standard input. A request to the sandbox named plain gets the answer on the
// first line of its standard input; the one named piped also executes the code in a bare Python behind two pipes.
const floorRole = "step-floor"

const (
	floorPlain = "plain"
	floorPiped = "piped"

	pipedProgram = "import sys\nfor line in sys.stdin:\n exec(line)\n sys.stdout.write('.')\n sys.stdout.flush()"
)

// stepFloor is such a process.
type stepFloor struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	client *client.Client
}

// startStepFloor starts a process that gives this answer.
func startStepFloor(ctx context.Context, answer any) (f *stepFloor, err error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	f = &stepFloor{cmd: exec.CommandContext(ctx, program, floorRole)}
	f.cmd.Stderr = os.Stderr
	var out io.Reader
	if f.in, err = f.cmd.StdinPipe(); err == nil {
		out, err = f.cmd.StdoutPipe()
	}
	if err == nil {
		err = f.cmd.Start()
	}
	if err != nil {
		return nil, err
	}
	if err = json.NewEncoder(f.in).Encode(answer); err == nil {
		var url string
		if url, err = bufio.NewReader(out).ReadString('\n'); err == nil {
			f.client, err = client.New(client.Config{Server: strings.TrimSpace(url)})
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.stop())
	}
	return f, nil
}

func (f *stepFloor) stop() error {
	if f.client != nil {
		f.client.Close()
	}
	f.in.Close()
	return f.cmd.Wait()
}

// serveFloor is the main of such a process.
func serveFloor() error {
	in := bufio.NewReader(os.Stdin)
	answer, err := in.ReadBytes('\n')
	if err != nil {
		return err
	}
	python := exec.Command(pythonPath, "-c", pipedProgram)
	code, err := python.StdinPipe()
	if err != nil {
		return err
	}
	done, err := python.StdoutPipe()
	if err != nil {
		return err
	}
	if err := python.Start(); err != nil {
		return err
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var request struct{ Code string }
		err := json.NewDecoder(r.Body).Decode(&request)
		if err == nil && strings.Contains(r.URL.Path, floorPiped) { // one request at a time
			if _, err = io.WriteString(code, request.Code+"\n"); err == nil {
				_, err = io.ReadFull(done, make([]byte, 1))
			}
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(answer)
	})}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, in)
		server.Close()
	}()
	fmt.Printf("http://%s\n", listener.Addr())
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	code.Close()
	return python.Wait()
}
