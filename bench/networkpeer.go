package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// peerRole is the first argument of a peer process, one end of measured connections. It executes the orders on its
// stdin, one per line, and answers each with a line of numbers.
const peerRole = "network-peer"

const (
	smallRequest = "GET / HTTP/1.1\r\nHost: bench.test\r\nUser-Agent: bench\r\nAccept: */*\r\n\r\n"
	smallAnswer  = "HTTP/1.1 200 OK\r\nContent-Length: 64\r\nContent-Type: text/plain\r\n\r\n" +
		"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	streamChunk = 256 << 10
)

type peer struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines *bufio.Scanner
}

// startPeer starts a peer in this network namespace or, if apart, in a new one.
func startPeer(ctx context.Context, apart bool) (*peer, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &peer{cmd: exec.CommandContext(ctx, program, peerRole)}
	p.cmd.Stderr = os.Stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if apart {
		p.cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWNET
	}
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.lines = bufio.NewScanner(out)
	p.lines.Buffer(nil, 16<<20)
	return p, p.cmd.Start()
}

// do sends an order and returns the answer.
func (p *peer) do(order ...any) ([]string, error) {
	fmt.Fprintln(p.in, order...) // an ended peer fails to answer
	if !p.lines.Scan() {
		return nil, fmt.Errorf("%v: the peer ended", order)
	}
	line := p.lines.Text()
	if text, failed := strings.CutPrefix(line, "error: "); failed {
		return nil, fmt.Errorf("%v: %s", order, text)
	}
	return strings.Fields(line), nil
}

// times calls do for an answer in nanoseconds.
func (p *peer) times(order ...any) (list []time.Duration, err error) {
	fields, err := p.do(order...)
	for _, f := range fields {
		n, failed := strconv.ParseInt(f, 10, 64)
		err = errors.Join(err, failed)
		list = append(list, time.Duration(n))
	}
	return list, err
}

func (p *peer) stop() error {
	p.in.Close()
	return p.cmd.Wait()
}

// servePeer is the main of a peer.
func servePeer() {
	var held []net.Conn // kept open to the end
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		order := append(strings.Fields(lines.Text()), "", "", "")
		n, _ := strconv.Atoi(order[2])
		var answer []string
		var err error
		switch order[0] {
		case "serve":
			answer, err = serveAll(order[1])
		case "request":
			answer, err = requests(order[1], n, nil)
		case "hold":
			answer, err = requests(order[1], n, &held)
		case "down", "up":
			var took time.Duration
			took, err = stream(order[1], order[0], n)
			answer = []string{strconv.FormatInt(took.Nanoseconds(), 10)}
		case "refused":
			answer, err = refusals(n)
		}
		if err != nil {
			answer = []string{"error:", strings.ReplaceAll(err.Error(), "\n", "; ")}
		}
		fmt.Println(strings.Join(answer, " "))
	}
}

// serveAll listens at an address. The first byte of a connection selects what it serves.
func serveAll(address string) ([]string, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go serveOne(c)
		}
	}()
	return []string{l.Addr().String()}, nil
}

// serveOne answers requests ("G"), or sends ("D") or receives ("U") as many bytes as the 8 digits after it specify.
func serveOne(c net.Conn) {
	defer c.Close()
	head := make([]byte, 9)
	if _, err := io.ReadFull(c, head); err != nil {
		return
	}
	if head[0] == 'G' {
		b := make([]byte, len(smallRequest))
		for rest := b[len(head):]; ; rest = b {
			if _, err := io.ReadFull(c, rest); err != nil {
				return
			}
			if _, err := io.WriteString(c, smallAnswer); err != nil {
				return
			}
		}
	}
	size, _ := strconv.ParseInt(string(head[1:]), 16, 64)
	if head[0] == 'U' {
		_, _ = io.CopyN(io.Discard, c, size)
		_, _ = c.Write(head[:1])
		return
	}
	b := make([]byte, streamChunk)
	for ; size > 0; size -= int64(len(b)) {
		if _, err := c.Write(b[:min(size, int64(len(b)))]); err != nil {
			return
		}
	}
}

// requests makes small requests on one connection, or each on a new one that is held.
func requests(address string, n int, held *[]net.Conn) (took []string, err error) {
	var c net.Conn
	got := make([]byte, len(smallAnswer))
	for i := range n {
		began := time.Now()
		if i == 0 || held != nil {
			if c, err = net.Dial("tcp", address); err != nil {
				return nil, err
			}
			if held != nil {
				*held = append(*held, c)
			} else {
				defer c.Close()
			}
		}
		if _, err := io.WriteString(c, smallRequest); err != nil {
			return nil, err
		}
		if _, err := io.ReadFull(c, got); err != nil {
			return nil, err
		}
		took = append(took, strconv.FormatInt(time.Since(began).Nanoseconds(), 10))
	}
	return took, nil
}

// stream moves bytes in one direction and returns how long that took.
func stream(address, way string, size int) (time.Duration, error) {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	began := time.Now()
	if _, err := fmt.Fprintf(c, "%s%08x", strings.ToUpper(way[:1]), size); err != nil {
		return 0, err
	}
	if way == "up" {
		b := make([]byte, streamChunk)
		for left := size; left > 0; left -= len(b) {
			if _, err := c.Write(b[:min(left, len(b))]); err != nil {
				return 0, err
			}
		}
		_, err = io.ReadFull(c, make([]byte, 1))
	} else {
		_, err = io.CopyN(io.Discard, c, int64(size))
	}
	return time.Since(began), err
}

// refusals connects to many destinations and counts those that refused. The gate permits more half-open connections
// than it makes at once.
func refusals(n int) ([]string, error) {
	const atOnce = 64
	refused := 0
	for done := 0; done < n; {
		var batch []unix.PollFd
		for ; done < n && len(batch) < atOnce; done++ {
			fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
			if err != nil {
				return nil, err
			}
			to := unix.SockaddrInet4{Port: 1 + done%50_000, Addr: [4]byte{11, byte(done >> 8), byte(done), 1}}
			switch err := unix.Connect(fd, &to); {
			case err == nil, errors.Is(err, unix.EINPROGRESS), errors.Is(err, unix.ECONNREFUSED):
			default:
				return nil, err
			}
			batch = append(batch, unix.PollFd{Fd: int32(fd), Events: unix.POLLOUT})
		}
		for i := range batch {
			ready, _ := unix.Poll(batch[i:i+1], 20_000)
			if ready == 1 && batch[i].Revents&(unix.POLLHUP|unix.POLLERR) != 0 {
				refused++
			}
			unix.Close(int(batch[i].Fd))
		}
	}
	return []string{strconv.Itoa(refused)}, nil
}
