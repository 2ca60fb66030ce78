//go:build linux

package fork_test

import (
	"io"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/host/fork"
)

// TestCrowd starts thousands of children from many goroutines, some of which fail, beside starts of package os, while
// the collector runs and stacks grow and move: an error between vfork and exec shows as a crash, a hang, a wrong answer
// or a leaked descriptor.
func TestCrowd(t *testing.T) {
	const starters = 8
	starts := 400 // of each
	if testing.Short() {
		starts = 25
	}
	var orders [starters]*fork.Order
	for n := range orders {
		orders[n] = shell(t, "")
		orders[n].Copy = n%2 == 1
	}
	before, spawned := descriptors(t), children(t)
	var stop atomic.Bool
	var background, crowd sync.WaitGroup
	background.Go(func() {
		for !stop.Load() {
			runtime.GC()
		}
	})
	background.Go(func() {
		for !stop.Load() {
			p, err := os.StartProcess("/bin/true", []string{"true"}, &os.ProcAttr{})
			if err != nil {
				t.Error(err)
				return
			}
			if state, err := p.Wait(); err != nil || !state.Success() {
				t.Errorf("package os: %v, %v", state, err)
			}
		}
	})
	for n, order := range orders {
		crowd.Go(func() {
			for i := range starts {
				if i%8 == 7 {
					stillborn(t, order)
				} else {
					echo(t, order, strconv.Itoa(n*starts+i), i%32)
				}
			}
		})
	}
	crowd.Wait()
	stop.Store(true)
	background.Wait()
	if left := children(t); left != spawned {
		t.Errorf("children before: %s, after: %s", spawned, left)
	}
	if after := descriptors(t); after != before {
		t.Errorf("descriptors before:\n%s\nafter:\n%s", before, after)
	}
}

func stillborn(t *testing.T, order *fork.Order) {
	o := *order
	o.Paths, o.PIDFD = []string{"/no/such/program"}, true
	if pid, _, err := o.Start(); err == nil || err.Error() != "execute: no such file or directory" {
		t.Errorf("pid %d, %v", pid, err)
	}
}

// echo makes a child print a word. deep calls lie between this and the start, so that forks happen on stacks of many
// sizes.
func echo(t *testing.T, order *fork.Order, word string, deep int) {
	if deep > 0 {
		var room [256]byte
		room[deep] = byte(deep)
		echo(t, order, word, deep-1)
		if room[deep] != byte(deep) {
			t.Error("the stack was overwritten")
		}
		return
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Error(err)
		return
	}
	defer r.Close()
	o := *order
	o.Paths, o.Argv = []string{"/bin/echo"}, []string{"echo", word}
	o.Files = []int{order.Files[0], int(w.Fd()), order.Files[2]}
	o.PIDFD = true
	pid, pidfd, err := o.Start()
	w.Close()
	if err != nil {
		t.Error(err)
		return
	}
	defer unix.Close(pidfd)
	text, err := io.ReadAll(r)
	ws := wait(t, pid)
	if string(text) != word+"\n" || err != nil || ws != 0 {
		t.Errorf("got %q, want %s; %v, %#x", text, word, err, ws)
	}
}
