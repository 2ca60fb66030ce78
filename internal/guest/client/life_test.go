package client_test

import (
	"context"
	"errors"
	"io"
	"net"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/internal/guest/client"
	"github.com/fumehood-dev/fumehood/sandbox"
)

func TestWelcome(t *testing.T) {
	w := startGuest(t, 0).Client(t).Welcome()
	if w.ID != guestID || w.Version != guest.Version || w.Generation != 1 || w.Uptime <= 0 {
		t.Errorf("%+v", w)
	}
	for _, r := range []guest.Type{guest.TypeHello, guest.TypeStart, guest.TypeUnpack, guest.TypeShutdown} {
		if !slices.Contains(w.Requests, r) {
			t.Errorf("request %d is not served: %v", r, w.Requests)
		}
	}
}

func TestWhatEndsAGuest(t *testing.T) {
	t.Parallel() // it waits
	g := startGuest(t, 0)
	if err := g.Client(t).Shutdown(limit(t)); err != nil {
		t.Fatal(err)
	}
	if why := g.End(t); why != "shutdown\n" {
		t.Errorf("%q", why)
	}

	g = startGuest(t, 0)
	c := g.Client(t)
	p := start(t, c, shell("echo $$; sleep 100"))
	g.Release()
	if why := g.End(t); why != "lifeline\n" {
		t.Errorf("%q", why)
	}
	if _, err := p.Stream(limit(t), func(guest.Output) error { return nil },
		true); sandbox.KindOf(err) != sandbox.Unavailable {
		t.Errorf("%v", err)
	}
	<-c.Done()
	if c.Err() == nil {
		t.Error("a connection to nobody has no error")
	}

	g = startGuest(t, 200*time.Millisecond)
	if why := g.End(t); why != "lease\n" {
		t.Errorf("%q", why)
	}

	for _, next := range []time.Duration{hangTimeout, 0} { // renewed, and given up
		g, c = outlive(t, next)
		c.Lease(limit(t), time.Millisecond) // whose answer may come too late
		if why := g.End(t); why != "lease\n" {
			t.Errorf("%q", why)
		}
	}
}

// A lease makes a one-shot guest a living one, which outlives its lifeline; giving up a lease that there is not does
// not.
func TestPromotion(t *testing.T) {
	for _, lease := range []time.Duration{0, hangTimeout} {
		g := startGuest(t, 0)
		c := g.Client(t)
		if err := c.Lease(limit(t), lease); err != nil {
			t.Fatal(err)
		}
		line := g.Dial(t) // one more, as of a guest in a container: it ends with the other or outlives it
		if err := client.Lifeline(limit(t), line, guestKey); err != nil {
			t.Fatal(err)
		}
		g.Release()
		line.Close()
		want := "lifeline\n"
		if lease > 0 {
			time.Sleep(50 * time.Millisecond) // for a guest that ends wrongly
			if r := run(t, c, shell("exit 3")); r.exited.Code != 3 {
				t.Errorf("%+v", r.exited)
			}
			c.Lease(limit(t), time.Millisecond) // whose answer may come too late
			want = "lease\n"
		}
		if why := g.End(t); why != want {
			t.Errorf("with a lease of %v: %q", lease, why)
		}
	}
}

// outlive returns a guest that outlived one lease because the next came in time. A busy machine may be late for a short
// one.
func outlive(t *testing.T, next time.Duration) (*guestProcess, *client.Client) {
	t.Helper()
	for lease := 200 * time.Millisecond; lease < hangTimeout; lease *= 2 {
		g := startGuest(t, 0)
		c := g.Client(t)
		c.Lease(limit(t), lease)
		if c.Lease(limit(t), next) != nil {
			continue
		}
		time.Sleep(lease * 3 / 2)
		if _, err := c.List(limit(t)); err != nil {
			t.Fatalf("with a lease of %v after one of %v: %v", next, lease, err)
		}
		return g, c
	}
	t.Fatal("no lease is renewed in time")
	return nil, nil
}

func TestKilledGuest(t *testing.T) {
	g := startGuest(t, 0)
	c := g.Client(t)
	p := start(t, c, shell("echo $$; sleep 100"))
	_, err := p.Stream(limit(t), func(guest.Output) error {
		g.Kill()
		return nil
	}, true)
	if sandbox.KindOf(err) != sandbox.Unavailable {
		t.Errorf("%v", err)
	}
	if _, err := c.List(limit(t)); sandbox.KindOf(err) != sandbox.Unavailable {
		t.Errorf("%v", err)
	}
}

func TestReborn(t *testing.T) {
	g := startGuest(t, 0)
	c, other := g.Client(t), g.Client(t)
	ctx := limit(t)
	stay, go1 := shell("sleep 100"), shell("setsid sleep 100 & sleep 100")
	start(t, c, stay)
	start(t, other, go1)
	key := [32]byte{7, 7}
	m := guest.Reborn{Key: key[:], ID: "again", Entropy: []byte("some noise"), Keep: []string{stay.ID},
		Clock: time.Now()}
	if err := c.Reborn(ctx, guest.Reborn{Key: []byte("short")}); sandbox.KindOf(err) != sandbox.Invalid {
		t.Errorf("a short key: %v", err)
	}
	if err := c.Reborn(ctx, m); err != nil {
		t.Fatal(err)
	}
	<-other.Done()
	list, err := c.List(ctx)
	if err != nil || len(list) != 1 || list[0].ID != stay.ID || list[0].Exited {
		t.Errorf("%+v, %v", list, err)
	}
	if _, err := client.New(ctx, g.Dial(t), guestKey); sandbox.KindOf(err) != sandbox.Unavailable {
		t.Errorf("the old key: %v", err)
	}
	n, err := client.New(ctx, g.Dial(t), key)
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	if w := n.Welcome(); w.ID != "again" || w.Generation != 2 {
		t.Errorf("%+v", w)
	}
}

// A guest that inherited its socket cannot make it again, so it does not close it.
func TestHoldRefused(t *testing.T) {
	c := startGuest(t, 0).Client(t)
	if err := c.Hold(limit(t)); sandbox.KindOf(err) != sandbox.Unsupported {
		t.Errorf("%v", err)
	}
	if _, err := c.List(limit(t)); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// A connection with a bad preamble is closed without an answer.
func TestPreamble(t *testing.T) {
	t.Parallel() // it waits
	g := startGuest(t, 0)
	key := string(guestKey[:])
	for name, preamble := range map[string]string{
		"magic":    "FUMEHOD2" + "\x00" + key,
		"purpose":  guest.Magic + "\x03" + key,
		"key":      guest.Magic + "\x00" + "x" + key[1:],
		"last bit": guest.Magic + "\x00" + key[:31] + "\x01",
		"http":     "GET / HTTP/1.1\r\nHost: localhost\r\nUser-Agent: something\r\n\r\n",
		"zeros":    string(make([]byte, 64)),
	} {
		conn := g.Dial(t)
		conn.Write([]byte(preamble))
		if b, err := io.ReadAll(conn); len(b) > 0 {
			t.Errorf("%s: answered %q, %v", name, b, err)
		}
		conn.Close()
	}
	conn := g.Dial(t) // that dribbles
	defer conn.Close()
	conn.Write([]byte(guest.Magic))
	conn.SetReadDeadline(time.Now().Add(guest.PreambleTimeout + hangTimeout))
	if b, err := io.ReadAll(conn); len(b) > 0 || err != nil {
		t.Errorf("half a preamble: %q, %v", b, err)
	}
	g.Client(t) // still there
}

func TestConnectionsAreBounded(t *testing.T) {
	g := startGuest(t, 0)
	c := g.Client(t)
	var clients []*client.Client
	for range guest.MaxConnections - 1 { // that have shown the key, as no others may stay
		clients = append(clients, g.Client(t))
	}
	conn := g.Dial(t)
	defer conn.Close()
	if n, err := conn.Read(make([]byte, 1)); n > 0 || err != io.EOF {
		t.Errorf("a silent one too many: %d bytes, %v", n, err)
	}
	if _, err := client.New(limit(t), g.Dial(t), guestKey); sandbox.KindOf(err) != sandbox.Unavailable {
		t.Errorf("one too many: %v", err)
	}
	if _, err := c.List(limit(t)); err != nil {
		t.Errorf("the first connection: %v", err)
	}
	for _, c := range clients {
		c.Close()
	}
	await(t, func() bool {
		c, err := client.New(limit(t), g.Dial(t), guestKey)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
}

func TestConnectTimesOut(t *testing.T) {
	host, silent := net.Pipe()
	defer silent.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	go io.Copy(io.Discard, silent)
	if _, err := client.New(ctx, host, guestKey); !errors.Is(err, context.DeadlineExceeded) &&
		sandbox.KindOf(err) != sandbox.Unavailable {
		t.Errorf("%v", err)
	}
}

func TestClientsLeaveNoGoroutine(t *testing.T) {
	g := startGuest(t, 0)
	g.Client(t)
	before := runtime.NumGoroutine()
	for range 20 {
		c, err := client.New(limit(t), g.Dial(t), guestKey)
		if err != nil {
			t.Fatal(err)
		}
		p := start(t, c, shell("sleep 100"))
		if err := c.Ack(limit(t), guest.Ack{ID: p.ID()}); err != nil {
			t.Error(err)
		}
		c.Close()
		p.Close()
	}
	await(t, func() bool { return runtime.NumGoroutine() <= before })
}

// Code that runs as the guest's own user may send it signals.
func TestGuestIsDeafToSignals(t *testing.T) {
	g := startGuest(t, 0)
	c := g.Client(t)
	for s := syscall.Signal(1); s <= 64; s++ {
		if s == syscall.SIGKILL || s == syscall.SIGSTOP || s >= 32 && s <= 34 {
			// Nobody can ignore the first two; the C library keeps the others. To pid 1 the kernel drops all.
			continue
		}
		for range 3 {
			if err := syscall.Kill(g.PID, s); err != nil {
				t.Fatal(err)
			}
		}
		if r := run(t, c, shell("exit 3")); r.exited.Code != 3 {
			t.Errorf("after signal %d: %+v", s, r.exited)
		}
	}
	r := run(t, c, shell(`exec grep -E 'Sig(Blk|Ign)' /proc/self/status`)) // which is not handed down
	if r.stdout.String() != "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n" {
		t.Errorf("%s", r.stdout.String())
	}
}
