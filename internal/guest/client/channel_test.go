package client_test

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/internal/guest/client"
	"github.com/fumehood-dev/fumehood/sandbox"
)

func channel(script string) guest.Start {
	m := shell(script)
	m.Channel = true
	return m
}

// echoes is a driver of one verb: it prints each request on stdout and stderr, then reports it. Another program
// inherits its descriptors.
const echoes = `exec sh -c 'while read n <&3; do echo "out $n"; echo "e$n" >&2; echo "$n" >&4; done; readlink /proc/self/fd/0 >&4'`

// report checks what a host has of echoes' output.
type report struct {
	t      *testing.T
	got    [4]bytes.Buffer
	before [2]uint64
	lines  int    // of the channel, complete
	want   [2]int // bytes printed before them
}

func (r *report) take(o guest.Output) error {
	buf := &r.got[o.Stream]
	if int(o.Offset) != buf.Len() {
		r.t.Fatalf("%v at %d after %d bytes", o.Stream, o.Offset, buf.Len())
	}
	buf.Write(o.Data)
	if o.Stream != sandbox.Channel {
		return nil
	}
	for range bytes.Count(o.Data, []byte{'\n'}) {
		r.lines++
		n := strconv.Itoa(r.lines)
		r.want[0] += len("out \n") + len(n)
		r.want[1] += len("e\n") + len(n)
	}
	if last := o.Data[len(o.Data)-1]; last == '\n' && r.lines <= rounds &&
		(int(o.BeforeStdout) < r.want[0] || int(o.BeforeStderr) < r.want[1]) {
		r.t.Fatalf("report %d is marked %d and %d; %v were printed before it", r.lines, o.BeforeStdout, o.BeforeStderr,
			r.want)
	}
	if o.BeforeStdout < r.before[0] || o.BeforeStderr < r.before[1] {
		r.t.Fatalf("marks %d and %d after %v", o.BeforeStdout, o.BeforeStderr, r.before)
	}
	r.before = [2]uint64{o.BeforeStdout, o.BeforeStderr}
	return nil
}

const rounds = 5000

// However slow the host and whichever buffer is full, a report's marks cover what was printed before it, and nothing is
// lost or mixed, on however many connections.
func TestChannel(t *testing.T) {
	for _, buffer := range []uint32{4 << 10, 0} {
		g := startGuest(t, 0)
		m := channel(echoes)
		m.Buffer = buffer
		c := g.Client(t)
		p := start(t, c, m)
		feeder, err := g.Client(t).Attach(limit(t), guest.Attach{ID: m.ID})
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			if err := errors.Join(feeder.Input(limit(t), numbers(rounds)), feeder.CloseStdin(limit(t))); err != nil {
				t.Error(err)
			}
		}()
		await(t, func() bool { // a host that is late finds stdout held up
			list, err := c.List(limit(t))
			if err != nil {
				t.Fatal(err)
			}
			return buffer == 0 || list[0].Stdout == uint64(buffer)
		})
		r := &report{t: t}
		var exited guest.Exited
		for cut := 1; ; cut++ {
			stop, pieces := errors.New("enough"), 0
			var err error
			exited, err = p.Stream(limit(t), func(o guest.Output) error {
				if pieces++; pieces > 50*cut {
					return stop // this piece was not taken
				}
				return r.take(o)
			}, true)
			if err == nil {
				break
			}
			if err != stop {
				t.Fatal(err)
			}
			c.Close()
			at := p.Offsets()
			c = g.Client(t)
			if p, err = c.Attach(limit(t), at); err != nil {
				t.Fatal(err)
			}
		}
		n := strings.TrimSuffix(string(numbers(rounds)), "\n")
		want := [4]string{1: "out " + strings.ReplaceAll(n, "\n", "\nout ") + "\n",
			2: "e" + strings.ReplaceAll(n, "\n", "\ne") + "\n",
			3: n + "\n/dev/null\n"}
		ends := [4]uint64{1: exited.Stdout, 2: exited.Stderr, 3: exited.Channel}
		for s := 1; s <= 3; s++ {
			if r.got[s].String() != want[s] || int(ends[s]) != len(want[s]) {
				t.Errorf("%v: %d bytes of %d, %d at the exit", sandbox.Stream(s), r.got[s].Len(), len(want[s]), ends[s])
			}
		}
		if int(exited.Stdout) < int(r.before[0]) || int(exited.Stderr) < int(r.before[1]) || exited.Code != 0 ||
			exited.Incomplete {
			t.Errorf("%+v, last marks %v", exited, r.before)
		}
	}
}

// Reports that nobody takes hold the process up; acknowledging them frees it, and a list says where a host may attach
// again.
func TestChannelIsHeldUpAndAcknowledged(t *testing.T) {
	c := startGuest(t, 0).Client(t)
	m := channel(`head -c 1000000 /dev/zero >&4; echo end`)
	m.Buffer = 4 << 10
	start(t, c, m).Close()
	info := func() guest.ProcessInfo {
		list, err := c.List(limit(t))
		if err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
		return list[0]
	}
	await(t, func() bool { return info().Channel == 4<<10 })
	if at, err := c.Input(limit(t), guest.Input{ID: m.ID, Data: []byte("abc")}); err != nil || at != 3 {
		t.Errorf("%d, %v", at, err)
	}
	if i := info(); i.Exited || i.Stdout != 0 || i.Stdin != 3 {
		t.Errorf("%+v", i)
	}
	if err := c.Ack(limit(t), guest.Ack{ID: m.ID, Channel: 3000}); err != nil {
		t.Fatal(err)
	}
	await(t, func() bool { return info().Channel == 4<<10+3000 })
	at := func(offset uint64) (n int, exited guest.Exited, err error) {
		p, err := c.Attach(limit(t), guest.Attach{ID: m.ID, Channel: offset})
		if err != nil {
			t.Fatal(err)
		}
		exited, err = p.Stream(limit(t), func(o guest.Output) error {
			if o.Stream == sandbox.Channel {
				n += len(o.Data)
			}
			return nil
		}, true)
		return n, exited, err
	}
	var forgotten *client.Forgotten
	if _, _, err := at(2999); !errors.As(err, &forgotten) || forgotten.Oldest != 3000 ||
		forgotten.Stream != sandbox.Channel {
		t.Errorf("at a forgotten offset: %v", err)
	}
	if n, e, err := at(3000); err != nil || n != 1_000_000-3000 || e.Channel != 1_000_000 || e.Stdout != 4 {
		t.Errorf("%d bytes, %+v, %v", n, e, err)
	}
}

// The end of the channel is not the end of the process, and a descendant that holds it does not keep the process's end
// back.
func TestChannelEnds(t *testing.T) {
	c := startGuest(t, 0).Client(t)
	for script, incomplete := range map[string]bool{
		"echo report >&4; exec 3<&- 4>&-; echo after":           false,
		"echo report >&4; sleep 100 >&- 2>&- & echo after":      true,
		"echo report >&4; sleep 100 4>&- >&- 2>&- & echo after": false,
	} {
		m := channel(script)
		p := start(t, c, m)
		var got [4]bytes.Buffer
		e, err := p.Stream(limit(t), func(o guest.Output) error {
			got[o.Stream].Write(o.Data)
			return nil
		}, true)
		if err != nil || got[1].String() != "after\n" || got[3].String() != "report\n" || e.Incomplete != incomplete ||
			e.Channel != 7 ||
			e.Code != 0 {
			t.Errorf("%q: %q, %q, %+v, %v", script, &got[1], &got[3], e, err)
		}
	}
}

func TestChannelRefused(t *testing.T) {
	c := startGuest(t, 0).Client(t)
	tty, stdin := channel("exit 0"), channel("exit 0")
	tty.TTY, stdin.Stdin = true, guest.StdinPipe
	for _, m := range []guest.Start{tty, stdin} {
		if _, err := c.Start(limit(t), m); sandbox.KindOf(err) != sandbox.Invalid {
			t.Errorf("%v", err)
		}
	}
}

// A process that has no channel has no such descriptors, and a host takes no reports from it.
func TestNoChannel(t *testing.T) {
	c := startGuest(t, 0).Client(t)
	if r := run(t, c, shell("echo x >&4")); r.exited.Code == 0 || r.exited.Channel != 0 || r.stdout.Len() > 0 {
		t.Errorf("%+v", r)
	}
}

// SIGINT to the group of one context reaches all of that group and nothing of another context.
func TestInterruptReachesOneGroup(t *testing.T) {
	c := startGuest(t, 0).Client(t)
	other := start(t, c, channel("read n <&3; exit 7"))
	// The child is not started with &: a shell would have it ignore SIGINT.
	p := start(t, c, channel(`trap 'exit 5' INT; sh -c 'trap "echo child >&4; exit" INT; echo ready >&4; while :; do sleep 0.01; done'`))
	var got strings.Builder
	e, err := p.Stream(limit(t), func(o guest.Output) error {
		if o.Stream == sandbox.Channel {
			got.Write(o.Data)
		}
		if got.String() == "ready\n" {
			return p.Signal(limit(t), int32(syscall.SIGINT), guest.ScopeGroup)
		}
		return nil
	}, true)
	if err != nil || e.Code != 5 || got.String() != "ready\nchild\n" {
		t.Errorf("%q, %+v, %v", got.String(), e, err)
	}
	if err := other.Input(limit(t), []byte("\n")); err != nil {
		t.Error(err)
	}
	if e := collect(t, other).exited; e.Code != 7 {
		t.Errorf("the other one: %+v", e)
	}
}
