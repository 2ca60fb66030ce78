package client_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/sandbox"
)

func TestStdin(t *testing.T) {
	c := startGuest(t, 0).Client(t)
	data := make([]byte, 3<<20)
	rand.NewChaCha8([32]byte{1}).Read(data)
	m := shell("cat")
	m.Stdin = guest.StdinPipe
	p := start(t, c, m)
	go func() {
		if err := p.Input(limit(t), data); err != nil {
			t.Error(err)
		}
		if err := p.CloseStdin(limit(t)); err != nil {
			t.Error(err)
		}
	}()
	if r := collect(t, p); !bytes.Equal(r.stdout.Bytes(), data) {
		t.Errorf("%d bytes of %d came back", r.stdout.Len(), len(data))
	}
	list, err := c.List(limit(t))
	if err != nil || list[0].Stdin != uint64(len(data)) {
		t.Errorf("%+v, %v", list, err)
	}
}

// A piece of stdin that is sent again after its answer was lost is taken once.
func TestStdinIsTakenOnce(t *testing.T) {
	g := startGuest(t, 0)
	c := g.Client(t)
	ctx := limit(t)
	m := shell("cat")
	m.Stdin = guest.StdinPipe
	p := start(t, c, m)
	for _, in := range []struct {
		offset uint64
		data   string
		at     uint64
	}{{0, "hello ", 6}, {0, "hello ", 6}, {3, "lo world", 11}, {0, "", 11}, {11, "!", 12}, {2, "llo", 12}} {
		at, err := c.Input(ctx, guest.Input{ID: m.ID, Offset: in.offset, Data: []byte(in.data)})
		if err != nil || at != in.at {
			t.Errorf("%+v: %d, %v", in, at, err)
		}
	}
	if _, err := c.Input(ctx, guest.Input{ID: m.ID, Offset: 13,
		Data: []byte("gap")}); sandbox.KindOf(err) != sandbox.Invalid {
		t.Errorf("a gap: %v", err)
	}
	q, err := g.Client(t).Attach(ctx, p.Offsets()) // another connection goes on where the first was
	if err != nil {
		t.Fatal(err)
	}
	if err := q.Input(ctx, []byte(" again")); err != nil {
		t.Error(err)
	}
	for range 2 {
		if err := q.CloseStdin(ctx); err != nil {
			t.Error(err)
		}
	}
	if r := collect(t, p); r.stdout.String() != "hello world! again" {
		t.Errorf("%q", r.stdout.String())
	}
	if err := q.Input(ctx, []byte("to nobody")); err != nil {
		t.Errorf("to one that is gone: %v", err)
	}
}

func TestStdinOfAProcessThatDoesNotRead(t *testing.T) {
	c := startGuest(t, 0).Client(t)
	m := shell("exec 0<&-; echo closed; sleep 100")
	m.Stdin = guest.StdinPipe
	p := start(t, c, m)
	await(t, func() bool { list, err := c.List(limit(t)); return err == nil && list[0].Stdout > 0 })
	if err := p.Input(limit(t), make([]byte, 1<<20)); err != nil {
		t.Error(err)
	}

	m = shell("sleep 100")
	m.Stdin = guest.StdinPipe
	p = start(t, c, m)
	ctx, cancel := context.WithCancel(limit(t))
	full := make(chan error)
	go func() { full <- p.Input(ctx, make([]byte, 1<<20)) }()
	pipe, err := os.Open("/proc/" + itoa(int(p.PID())) + "/fd/0")
	must(t, err)
	defer pipe.Close()
	room, err := unix.FcntlInt(pipe.Fd(), unix.F_GETPIPE_SZ, 0)
	must(t, err)
	await(t, func() bool {
		n, err := unix.IoctlGetInt(int(pipe.Fd()), unix.TIOCINQ)
		return err == nil && n == room
	})
	cancel()
	if err := <-full; sandbox.KindOf(err) != sandbox.Unavailable {
		t.Errorf("a full pipe: %v", err)
	}
	list, err := c.List(limit(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range list {
		if i.ID == m.ID && (i.Stdin == 0 || i.Stdin >= 1<<20) {
			t.Errorf("%d bytes were taken", i.Stdin)
		}
	}
	m = shell("sleep 100")
	if _, err := c.Input(limit(t), guest.Input{ID: start(t, c, m).ID(),
		Data: []byte("x")}); sandbox.KindOf(err) != sandbox.Invalid {
		t.Errorf("no pipe: %v", err)
	}
}

func TestTerminal(t *testing.T) {
	c := startGuest(t, 0).Client(t)
	ctx := limit(t)
	m := shell(`stty -echo; tty; stty size; read line; echo "got $line"; stty size; test -t 0 && test -t 1 && test -t 2 && echo all >&2; cat; exit 5`)
	m.TTY, m.Rows, m.Cols = true, 33, 111
	p := start(t, c, m)
	var out bytes.Buffer
	asked, closed := false, false
	e, err := p.Stream(ctx, func(o guest.Output) error {
		if o.Stream != sandbox.Stdout {
			t.Errorf("output on %v", o.Stream)
		}
		out.Write(o.Data)
		if !asked && strings.Contains(out.String(), "33 111") {
			asked = true
			if err := p.Resize(ctx, 44, 222); err != nil {
				return err
			}
			return p.Input(ctx, []byte("one\n"))
		}
		if !closed && strings.Contains(out.String(), "all") {
			closed = true
			return p.CloseStdin(ctx)
		}
		return nil
	}, true)
	lines := strings.Split(out.String(), "\r\n")
	if err != nil || e.Code != 5 || e.Incomplete || len(lines) != 6 || !strings.HasPrefix(lines[0], "/dev/pts/") ||
		strings.Join(lines[1:], "|") != "33 111|got one|44 222|all|" {
		t.Errorf("%q %+v %v", out.String(), e, err)
	}
	if err := p.Resize(ctx, 1, 1); sandbox.KindOf(err) != sandbox.NotFound {
		t.Errorf("a closed terminal: %v", err)
	}
	if err := start(t, c, shell("sleep 100")).Resize(ctx, 1, 1); sandbox.KindOf(err) != sandbox.Invalid {
		t.Errorf("no terminal: %v", err)
	}
}

// A resize sends SIGWINCH, the key SIGINT, hanging up SIGHUP: the process owns the terminal.
func TestTerminalSignals(t *testing.T) {
	c := startGuest(t, 0).Client(t)
	ctx := limit(t)
	m := shell(`trap 'echo winch' WINCH; trap 'echo int; exit 3' INT; echo ready; while :; do sleep 0.01; done`)
	m.TTY, m.Rows, m.Cols = true, 10, 10
	p := start(t, c, m)
	var out bytes.Buffer
	step := 0
	e, err := p.Stream(ctx, func(o guest.Output) error {
		out.Write(o.Data)
		switch {
		case step == 0 && strings.Contains(out.String(), "ready"):
			step = 1
			return p.Resize(ctx, 20, 20)
		case step == 1 && strings.Contains(out.String(), "winch"):
			step = 2
			return p.Input(ctx, []byte{3})
		}
		return nil
	}, true)
	if err != nil || e.Code != 3 || !strings.Contains(out.String(), "int\r\n") {
		t.Errorf("%q %+v %v", out.String(), e, err)
	}
}

func TestLargeTerminalOutput(t *testing.T) {
	c := startGuest(t, 0).Client(t)
	m := shell("seq 1 50000")
	m.TTY, m.Buffer = true, 4096
	r := run(t, c, m)
	if want := bytes.ReplaceAll(numbers(50_000), []byte("\n"), []byte("\r\n")); !bytes.Equal(r.stdout.Bytes(), want) {
		t.Errorf("%d bytes of %d", r.stdout.Len(), len(want))
	}
}
