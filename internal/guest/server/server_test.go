package server_test

import (
	"context"
	"io"
	"net"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/internal/guest/client"
	"github.com/fumehood-dev/fumehood/internal/guest/server"
	"github.com/fumehood-dev/fumehood/internal/guest/wire"
	"github.com/fumehood-dev/fumehood/sandbox"
)

var key = [32]byte{5}

// stepTimeout bounds what may hang, far above the time that anything takes on a busy machine.
const stepTimeout = 2 * time.Minute

// unique is part of execution ids: their processes are searched in all of /proc, where other tests have theirs.
var unique = strconv.Itoa(os.Getpid()) + "-server"

// ordinary returns a server inside the test's own process, whose other children are not the server's.
func ordinary(t *testing.T) *server.Server {
	t.Helper()
	s, err := server.New(server.Config{Key: key, ID: "ordinary",
		User: sandbox.User{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func connect(t *testing.T, s *server.Server) *client.Client {
	t.Helper()
	host, conn := net.Pipe()
	go s.ServeConn(conn)
	c, err := client.New(context.Background(), host, key)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func openFiles(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

func settle(t *testing.T, what string, now func() int, before int) {
	t.Helper()
	for end := time.Now().Add(stepTimeout); now() > before; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			buf := make([]byte, 1<<16)
			t.Fatalf("%d %s, before %d\n%s", now(), what, before, buf[:runtime.Stack(buf, true)])
		}
	}
}

// Close leaves no process, goroutine or descriptor, whatever was running.
func TestCloseLeavesNothing(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
	defer cancel()
	for round := range 3 {
		goroutines, files := runtime.NumGoroutine(), openFiles(t)
		s := ordinary(t)
		c := connect(t, s)
		var pids []int32
		for i, script := range []string{"exit 3", "sleep 100", "seq 1 1000000", "cat", "sleep 100 & exit 0",
			"trap '' TERM; sleep 100"} {
			m := guest.Start{ID: unique + strconv.Itoa(i), Argv: []string{"sh", "-c", script}, Stdin: guest.StdinPipe,
				TTY:      i == 3,
				Deadline: time.Hour}
			p, err := c.Start(ctx, m)
			if err != nil {
				t.Fatal(err)
			}
			pids = append(pids, p.PID())
			if i%2 == 0 {
				p.Close()
			}
		}
		if e, err := c.Wait(ctx, unique+"0"); err != nil || e.Code != 3 {
			t.Errorf("%+v, %v", e, err)
		}
		if round > 0 {
			c.Close()
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if why := s.Wait(); why != server.EndClosed {
			t.Errorf("ended: %v", why)
		}
		c.Close()
		for _, pid := range pids {
			if _, err := os.Stat("/proc/" + strconv.Itoa(int(pid))); err == nil {
				t.Errorf("process %d is left", pid)
			}
		}
		settle(t, "goroutines", runtime.NumGoroutine, goroutines)
		settle(t, "descriptors", func() int { return openFiles(t) }, files)
	}
}

// A broken connection affects neither other connections nor its own processes.
func TestBrokenConnectionEndsAlone(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
	defer cancel()
	s := ordinary(t)
	defer s.Close()
	good := connect(t, s)
	defer good.Close()
	host, conn := net.Pipe()
	go s.ServeConn(conn)
	host.Write(append([]byte(guest.Magic+"\x00"), key[:]...))
	var reply [16]byte
	if _, err := io.ReadFull(host, reply[:]); err != nil {
		t.Fatal(err)
	}
	start := &guest.Start{ID: unique, Argv: []string{"sh", "-c", "sleep 0.2; exit 9"}, Follow: true}
	body := guest.Append(nil, start)
	frame := wire.AppendMessageHeader(nil, uint8(guest.TypeStart), len(body))
	frame = append(frame, body...)
	n := len(frame)
	host.Write(append([]byte{1, 0, 0, 0, 0, byte(n), byte(n >> 8), 0}, frame...))
	if _, err := io.ReadFull(host, reply[:]); err != nil { // Started is on its way
		t.Fatal(err)
	}
	host.Write([]byte{9, 9, 9, 9, 9, 9, 9, 9})
	if _, err := io.Copy(io.Discard, host); err != nil {
		t.Error(err)
	}
	if e, err := good.Wait(ctx, unique); err != nil || e.Code != 9 {
		t.Errorf("%+v, %v", e, err)
	}
}

// A message with a malformed body, or that is not a request, ends only its call.
func TestBrokenMessagesEndTheirCallAlone(t *testing.T) {
	s := ordinary(t)
	defer s.Close()
	host, conn := net.Pipe()
	go s.ServeConn(conn)
	host.Write(append([]byte(guest.Magic+"\x00"), key[:]...))
	var reply [16]byte
	if _, err := io.ReadFull(host, reply[:]); err != nil {
		t.Fatal(err)
	}
	session := wire.NewSession(host, wire.Host)
	defer session.Close()
	call := func(typ guest.Type, body []byte) (guest.Type, *guest.Failed, error) {
		st, err := session.Open()
		if err != nil {
			t.Fatal(err)
		}
		defer st.Close()
		if err := st.SendLast(uint8(typ), body); err != nil {
			t.Fatal(err)
		}
		got, answer, err := st.Recv()
		var f guest.Failed
		if err == nil && guest.Type(got) == guest.TypeFailed {
			err = guest.Parse(answer, &f)
		}
		return guest.Type(got), &f, err
	}
	for _, bad := range []guest.Type{guest.TypeStart, guest.TypeAttach, guest.TypeInput, guest.TypeAck,
		guest.TypeSignal,
		guest.TypeResize, guest.TypeWait, guest.TypeLease, guest.TypeReborn} {
		if _, _, err := call(bad, []byte{0x80}); err != wire.ErrReset {
			t.Errorf("request %d, malformed: %v", bad, err)
		}
	}
	for _, unknown := range []guest.Type{0, guest.TypeWelcome, guest.TypeOutput, guest.TypeAdopt, 200} {
		if got, f, err := call(unknown, nil); err != nil || got != guest.TypeFailed || f.Kind != sandbox.Unsupported {
			t.Errorf("request %d: %d, %+v, %v", unknown, got, f, err)
		}
	}
	if got, _, err := call(guest.TypeHello, nil); err != nil || got != guest.TypeWelcome {
		t.Errorf("afterwards: %d, %v", got, err)
	}
}
