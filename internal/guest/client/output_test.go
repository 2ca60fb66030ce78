package client_test

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/internal/guest/client"
	"github.com/fumehood-dev/fumehood/sandbox"
)

func itoa(n int) string { return strconv.Itoa(n) }

// numbers is what `seq 1 n` prints.
func numbers(n int) []byte {
	var b []byte
	for i := 1; i <= n; i++ {
		b = append(strconv.AppendInt(b, int64(i), 10), '\n')
	}
	return b
}

// However often connections fail, each byte arrives once and in order.
func TestOutputSurvivesItsConnections(t *testing.T) {
	g := startGuest(t, 0)
	const lines = 200_000
	m := shell("seq 1 " + itoa(lines) + "; seq 1 1000 >&2")
	m.Buffer = 100_000
	var got [3]bytes.Buffer
	var at guest.Attach
	first := g.Client(t)
	p := start(t, first, m)
	c := first
	for cut := 50_000; ; cut += 90_000 {
		stop := errors.New("enough")
		exited, err := p.Stream(limit(t), func(o guest.Output) error {
			buf := &got[o.Stream]
			if int(o.Offset) != buf.Len() {
				t.Fatalf("offset %d after %d bytes", o.Offset, buf.Len())
			}
			if got[1].Len() > cut {
				return stop // this piece was not taken
			}
			buf.Write(o.Data)
			return nil
		}, cut%180_000 != 0)
		if err == nil {
			if exited.Code != 0 || int(exited.Stdout) != got[1].Len() || int(exited.Stderr) != got[2].Len() {
				t.Errorf("%+v, have %d and %d", exited, got[1].Len(), got[2].Len())
			}
			break
		}
		if err != stop {
			t.Fatal(err)
		}
		c.Close() // the connection is cut in the middle
		at = p.Offsets()
		c = g.Client(t)
		if p, err = c.Attach(limit(t), at); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(got[1].Bytes(), numbers(lines)) || !bytes.Equal(got[2].Bytes(), numbers(1000)) {
		t.Error("the output is not what was written")
	}
}

// A process whose output nobody reads blocks; its output is neither lost nor kept in unlimited memory.
func TestBackPressure(t *testing.T) {
	c := startGuest(t, 0).Client(t)
	m := shell("seq 1 1000000; echo done >&2")
	m.Buffer = 64 << 10
	p := start(t, c, m)
	p.Close()
	stdout := func() uint64 {
		list, err := c.List(limit(t))
		if err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
		if list[0].Exited {
			t.Fatal("it was not held up")
		}
		return list[0].Stdout
	}
	await(t, func() bool { return stdout() == 64<<10 })
	time.Sleep(50 * time.Millisecond)
	if n := stdout(); n != 64<<10 {
		t.Errorf("%d bytes were read into a buffer of 64 KiB", n)
	}
	q, err := c.Attach(limit(t), guest.Attach{ID: m.ID})
	if err != nil {
		t.Fatal(err)
	}
	if r := collect(t, q); !bytes.Equal(r.stdout.Bytes(), numbers(1_000_000)) || r.stderr.String() != "done\n" {
		t.Errorf("%d bytes", r.stdout.Len())
	}
}

// A host that took all that the guest keeps, and lost its connection with the acknowledgement, goes on where it was.
func TestLostAcknowledgement(t *testing.T) {
	c := startGuest(t, 0).Client(t)
	m := shell("seq 1 10000")
	m.Buffer = 4 << 10
	start(t, c, m).Close()
	await(t, func() bool {
		list, err := c.List(limit(t))
		return err == nil && list[0].Stdout == uint64(m.Buffer)
	})
	p, err := c.Attach(limit(t), guest.Attach{ID: m.ID, Stdout: uint64(m.Buffer)})
	if err != nil {
		t.Fatal(err)
	}
	if r := collect(t, p); !bytes.Equal(r.stdout.Bytes(), numbers(10_000)[m.Buffer:]) {
		t.Errorf("%d bytes", r.stdout.Len())
	}
}

// await waits for a condition.
func await(t testing.TB, what func() bool) {
	t.Helper()
	for ctx := limit(t); !what(); time.Sleep(time.Millisecond) {
		if ctx.Err() != nil {
			t.Fatal("it does not come")
		}
	}
}

func TestDiscardKeepsTheNewest(t *testing.T) {
	c := startGuest(t, 0).Client(t)
	m := shell("seq 1 1000000")
	m.Buffer, m.Discard = 10_000, true
	p := start(t, c, m)
	p.Close()
	if _, err := c.Wait(limit(t), m.ID); err != nil {
		t.Fatal(err)
	}
	q, err := c.Attach(limit(t), guest.Attach{ID: m.ID})
	if err != nil {
		t.Fatal(err)
	}
	all := numbers(1_000_000)
	r := collect(t, q)
	if !bytes.Equal(r.stdout.Bytes(), all[len(all)-10_000:]) || int(r.exited.Stdout) != len(all) {
		t.Errorf("%d bytes, %+v", r.stdout.Len(), r.exited)
	}
}

func TestAttachAndAcknowledge(t *testing.T) {
	c := startGuest(t, 0).Client(t)
	ctx := limit(t)
	m := shell("echo 0123456789")
	start(t, c, m).Close()
	if _, err := c.Wait(ctx, m.ID); err != nil {
		t.Fatal(err)
	}
	from := func(offset uint64) (*result, error) {
		p, err := c.Attach(ctx, guest.Attach{ID: m.ID, Stdout: offset})
		if err != nil {
			t.Fatal(err)
		}
		var r result
		r.exited, err = p.Stream(ctx, func(o guest.Output) error {
			r.stdout.Write(o.Data)
			return nil
		}, false)
		return &r, err
	}
	for range 2 { // what is not acknowledged can be had again
		if r, err := from(3); err != nil || r.stdout.String() != "3456789\n" {
			t.Errorf("%q, %v", r.stdout.String(), err)
		}
	}
	if err := c.Ack(ctx, guest.Ack{ID: m.ID, Stdout: 5}); err != nil {
		t.Fatal(err)
	}
	var forgotten *client.Forgotten
	if _, err := from(4); sandbox.KindOf(err) != sandbox.NotFound || !errors.As(err, &forgotten) ||
		forgotten.Oldest != 5 ||
		forgotten.Stream != sandbox.Stdout {
		t.Errorf("at a forgotten offset: %v", err)
	}
	if r, err := from(5); err != nil || r.stdout.String() != "56789\n" {
		t.Errorf("%q, %v", r.stdout.String(), err)
	}
	if _, err := from(1000); sandbox.KindOf(err) != sandbox.Invalid {
		t.Errorf("beyond the end: %v", err)
	}
	if err := c.Ack(ctx, guest.Ack{ID: m.ID, Stdout: 1 << 60, Exit: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := from(0); sandbox.KindOf(err) != sandbox.NotFound {
		t.Errorf("after all was acknowledged: %v", err)
	}
	if _, err := c.Wait(ctx, m.ID); sandbox.KindOf(err) != sandbox.NotFound {
		t.Errorf("wait after all was acknowledged: %v", err)
	}
	if list, err := c.List(ctx); err != nil || len(list) != 0 {
		t.Errorf("%v, %v", list, err)
	}
}

func TestRunningProcessIsNotAcknowledged(t *testing.T) {
	c := startGuest(t, 0).Client(t)
	m := shell("sleep 100")
	start(t, c, m)
	if err := c.Ack(limit(t), guest.Ack{ID: m.ID, Exit: true}); sandbox.KindOf(err) != sandbox.Invalid {
		t.Errorf("%v", err)
	}
}

// A stream whose reader is idle must not block the others of its connection.
func TestSlowReaderHoldsNobodyUp(t *testing.T) {
	c := startGuest(t, 0).Client(t)
	ctx, cancel := context.WithCancel(limit(t))
	slow := start(t, c, shell("seq 1 10000000"))
	stuck := make(chan struct{})
	over := make(chan struct{})
	go func() {
		defer close(over)
		var once bool
		slow.Stream(ctx, func(guest.Output) error {
			if !once {
				once = true
				close(stuck)
			}
			<-ctx.Done()
			return ctx.Err()
		}, true)
	}()
	<-stuck
	for range 20 {
		if r := run(t, c, shell("seq 1 100000")); !bytes.Equal(r.stdout.Bytes(), numbers(100_000)) {
			t.Errorf("%d bytes", r.stdout.Len())
		}
	}
	cancel()
	<-over
}

func TestCanceledCallsLeaveTheConnection(t *testing.T) {
	c := startGuest(t, 0).Client(t)
	m := shell("sleep 100")
	p := start(t, c, m)
	for range 10 {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
		if _, err := c.Wait(ctx, m.ID); !errors.Is(err, context.DeadlineExceeded) ||
			sandbox.KindOf(err) != sandbox.Unavailable {
			t.Errorf("%v", err)
		}
		cancel()
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := p.Stream(ctx, func(guest.Output) error { return nil }, true); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if list, err := c.List(limit(t)); err != nil || len(list) != 1 {
		t.Errorf("%v, %v", list, err)
	}
}

func BenchmarkOutput(b *testing.B) {
	c := startGuest(b, 0).Client(b)
	const size = 200 << 20
	b.SetBytes(size)
	for b.Loop() {
		n := 0
		p := start(b, c, shell("head -c "+itoa(size)+" /dev/zero"))
		_, err := p.Stream(limit(b), func(o guest.Output) error {
			n += len(o.Data)
			return nil
		}, true)
		if err != nil || n != size {
			b.Fatal(n, err)
		}
	}
}

func BenchmarkTrue(b *testing.B) {
	c := startGuest(b, 0).Client(b)
	for b.Loop() {
		m := guest.Start{ID: newID(), Argv: []string{"/bin/true"}}
		if e := run(b, c, m).exited; e.Code != 0 {
			b.Fatal(e)
		}
		if err := c.Ack(limit(b), guest.Ack{ID: m.ID, Exit: true}); err != nil {
			b.Fatal(err)
		}
	}
}
