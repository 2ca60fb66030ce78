package docker

import (
	"encoding/binary"
	"io"
	"net"
	"sync"

	"github.com/moby/moby/client"
)

// stream is the stderr of a container's first process. The guest writes there only when it fails. The stream ends with
// the container or the engine.
type stream struct {
	from  client.HijackedResponse
	ended chan struct{}

	mu   sync.Mutex
	tail []byte
}

// maxKeptOutput bounds how many bytes of it are kept.
const maxKeptOutput = 2000

func follow(from client.HijackedResponse) *stream {
	s := &stream{from: from, ended: make(chan struct{})}
	go func() {
		defer close(s.ended)
		_, _ = io.Copy(s, &frames{from: from.Reader, stderr: s})
	}()
	return s
}

// Write keeps the end of the output.
func (s *stream) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tail = append(s.tail, p[max(0, len(p)-maxKeptOutput):]...)
	s.tail = s.tail[max(0, len(s.tail)-maxKeptOutput):]
	return len(p), nil
}

func (s *stream) output() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.tail)
}

// close hangs up and waits for the reader.
func (s *stream) close() {
	s.from.Close()
	<-s.ended
}

// frames extracts stdout from an engine's frames, which carry stdout and stderr: one byte for the stream, three zero
// bytes, and a big-endian length of four bytes (docs.docker.com, "Attach to a container").
type frames struct {
	from   io.Reader
	stderr io.Writer
	rest   uint32 // of the frame that is being read
}

const (
	frameHeader = 8
	frameStderr = 2
)

func (f *frames) Read(p []byte) (int, error) {
	for f.rest == 0 {
		var header [frameHeader]byte
		if _, err := io.ReadFull(f.from, header[:]); err != nil {
			return 0, err
		}
		f.rest = binary.BigEndian.Uint32(header[4:])
		if header[0] == frameStderr {
			if _, err := io.CopyN(f.stderr, f.from, int64(f.rest)); err != nil {
				return 0, err
			}
			f.rest = 0
		}
	}
	n, err := f.from.Read(p[:min(len(p), int(f.rest))])
	f.rest -= uint32(n)
	return n, err
}

// bridge is a connection to a guest through a process of ours in its container.
type bridge struct {
	net.Conn
	from   client.HijackedResponse
	frames frames
}

func newBridge(from client.HijackedResponse) *bridge {
	return &bridge{Conn: from.Conn, from: from, frames: frames{from: from.Reader, stderr: io.Discard}}
}

func (b *bridge) Read(p []byte) (int, error) { return b.frames.Read(p) }

func (b *bridge) Close() error {
	b.from.Close()
	return nil
}
