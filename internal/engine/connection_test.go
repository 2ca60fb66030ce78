package engine_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// cutter is a backend whose connections to guests can be cut after a number of bytes.
type cutter struct {
	sandbox.Backend
	sent, received atomic.Int64 // bytes until the next cut; 0 is never
	cuts           atomic.Int64
}

func (c *cutter) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Box, error) {
	box, err := c.Backend.Create(ctx, spec)
	return &cutBox{box, c}, err
}

type cutBox struct {
	sandbox.Box
	cutter *cutter
}

func (b *cutBox) Dial(ctx context.Context) (net.Conn, error) {
	conn, err := b.Box.Dial(ctx)
	return &cutConn{conn, b.cutter}, err
}

type cutConn struct {
	net.Conn
	cutter *cutter
}

func (c *cutConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	return n, c.count(&c.cutter.received, n, err)
}

func (c *cutConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	return n, c.count(&c.cutter.sent, n, err)
}

func (c *cutConn) count(left *atomic.Int64, n int, err error) error {
	if had := left.Load(); had > 0 && had <= int64(n) && left.CompareAndSwap(had, 0) {
		c.cutter.cuts.Add(1)
		return c.Conn.Close()
	} else if had > 0 {
		left.CompareAndSwap(had, had-int64(n))
	}
	return err
}

// TestConnectionBreaks: a connection to the guest that breaks during an upload, a run, or the return of files is made
// anew, and the run goes on, in a one-shot sandbox and in a living one.
func TestConnectionBreaks(t *testing.T) {
	const size, half = 4 << 20, 2 << 20
	rig := newRig(t, engine.Config{})
	cut := &cutter{Backend: rig.faults.Backend}
	rig.faults.Backend = cut
	s := rig.make(t, engine.Create{})
	content := bytes.Repeat([]byte("0123456789abcde\n"), size/16)
	files := []sandbox.File{{Path: "a", Data: []byte("first")}, {Path: "b", Data: content}}
	returned := sandbox.Return{Globs: []string{"*.out"}}
	for _, c := range []struct {
		name           string
		sent, received int64
		request        sandbox.Request
	}{
		{"upload", half, 0, sandbox.Request{Command: []string{"cat", "a"}, Files: files}},
		{"code", half, 0, sandbox.Request{
			Language: "shell", Code: append(
				[]byte("printf first; exit\n"), bytes.Repeat([]byte("# more\n"), size/7)...)}},
		{"stdin", half, 0, sandbox.Request{
			Command: []string{"bash", "-c", "cat > in; cmp in b && printf first"}, Files: files, Stdin: content}},
		{"run", 0, half, sandbox.Request{
			Command: []string{"bash", "-c", fmt.Sprintf("printf first; head -c %d /dev/zero >&2", size)}}},
		{"return", 0, half, sandbox.Request{
			Command: []string{"bash", "-c", "printf first; cp a x.out; cp b y.out; cp b z.out"}, Files: files,
			Return: returned}},
	} {
		if c.name == "stdin" {
			c.sent += size // the files come first
		}
		for _, kind := range []string{"one-shot", "living"} {
			before := cut.cuts.Load()
			cut.sent.Store(c.sent)
			cut.received.Store(c.received)
			c.request.Timeout = stepTimeout
			var r *sandbox.Result
			if kind == "living" {
				r = do(t, s, engine.RunRequest{Request: c.request})
			} else {
				r = rig.run(t, engine.OneShot{Request: c.request})
			}
			if r.Status != sandbox.StatusSucceeded || string(r.Stdout.Head) != "first" {
				t.Errorf("%s, %s: %s, %q, %q, %+v", c.name, kind, r.Status, r.Stdout.Head,
					r.Stderr.Head[:min(100, len(r.Stderr.Head))], r.Hints)
			}
			if n := cut.cuts.Load() - before; n != 1 {
				t.Errorf("%s, %s: the connection was cut %d times", c.name, kind, n)
			}
			if c.name == "run" && int64(len(r.Stderr.Head)+len(r.Stderr.Tail))+r.Stderr.Dropped != size {
				t.Errorf("%s, %s: output is missing", c.name, kind)
			}
			if c.request.Return.Globs == nil {
				continue
			}
			if len(r.Files) != 3 || len(r.Skipped) != 0 || !bytes.Equal(r.Files[1].Data, content) ||
				!bytes.Equal(r.Files[2].Data, content) {
				t.Errorf("%s, %s: %d files were returned, %+v skipped", c.name, kind, len(r.Files), r.Skipped)
			}
		}
	}
}

// linkBackend makes boxes with a network.
type linkBackend struct{ sandbox.Backend }

func (b linkBackend) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Box, error) {
	network := spec.Network
	spec.Network = sandbox.NetworkPolicy{Mode: sandbox.NetworkNone}
	box, err := b.Backend.Create(ctx, spec)
	return linkBox{box, network}, err
}

type linkBox struct {
	sandbox.Box
	network sandbox.NetworkPolicy
}

func (linkBox) Link(context.Context) (io.ReadWriteCloser, error) { return nil, nil }

func (b linkBox) Effective() sandbox.Policy {
	p := b.Box.Effective()
	p.Network = b.network
	return p
}

// openGate lets everything pass.
type openGate struct{}

func (openGate) Complete(*sandbox.NetworkPolicy) error { return nil }
func (openGate) Open(io.ReadWriteCloser, sandbox.Spec, string, func(any)) (sandbox.Passage, error) {
	return openPassage{}, nil
}
func (openGate) MaxConnections() int             { return 1 }
func (openGate) Total() (t sandbox.NetworkTotal) { return t }

type openPassage struct{ sandbox.Passage }

func (openPassage) SetPolicy(sandbox.NetworkPolicy) (time.Duration, error) { return time.Second, nil }
func (openPassage) Keep(string) error                                      { return nil }
func (openPassage) Close() error                                           { return nil }
func (openPassage) Position() uint64                                       { return 0 }
func (openPassage) Refusals(uint64, int) (list []sandbox.NetworkRefusal)   { return list }
func (openPassage) Failures(uint64, int) (list []sandbox.NetworkFailure)   { return list }

// TestNetworkOnePolicy: after a change of the network, the sandbox and its runs report the new policy as requested and
// as effective. The sandbox reports how long the gate compared connections.
func TestNetworkOnePolicy(t *testing.T) {
	rig := newRig(t, engine.Config{Gate: openGate{}})
	rig.faults.Backend = linkBackend{rig.faults.Backend}
	s := rig.make(t, engine.Create{Spec: sandbox.Spec{Network: sandbox.NetworkPolicy{Mode: sandbox.NetworkRestricted}}})
	if err := s.Update(engine.Patch{Network: &sandbox.NetworkPolicy{Mode: sandbox.NetworkFull}}); err != nil {
		t.Fatal(err)
	}
	if took := s.Compared(); took != time.Second {
		t.Errorf("the gate compared connections for %v", took)
	}
	if i := s.Info(); i.Spec.Network.Mode != sandbox.NetworkFull || i.Effective.Network.Mode != sandbox.NetworkFull {
		t.Errorf("the sandbox: requested %s, effective %s", i.Spec.Network.Mode, i.Effective.Network.Mode)
	}
	if r := do(t, s, command("true")); r.Requested.Network.Mode != sandbox.NetworkFull ||
		r.Effective.Network.Mode != sandbox.NetworkFull {
		t.Errorf("a run: requested %s, effective %s", r.Requested.Network.Mode, r.Effective.Network.Mode)
	}
}
