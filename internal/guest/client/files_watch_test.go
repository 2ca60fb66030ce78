package client_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/internal/guest/client"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// watching is a running watch.
type watching struct {
	t       testing.TB
	changes chan guest.Changed
}

func watch(t testing.TB, c *client.Client, req guest.Watch) *watching {
	t.Helper()
	ctx, cancel := context.WithCancel(limit(t))
	w := &watching{t: t, changes: make(chan guest.Changed, 10_000)}
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- c.Watch(ctx, req, func() { close(ready) }, func(m guest.Changed) error {
			w.changes <- m
			return nil
		})
	}()
	select {
	case <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the watch ended with %v", err)
		}
	})
	return w
}

var opNames = []string{"", "create", "write", "remove", "rename", "mode"}

// until waits for a change and returns all changes up to it.
func (w *watching) until(want string) (all []string) {
	w.t.Helper()
	ctx := limit(w.t)
	for {
		select {
		case m := <-w.changes:
			s := opNames[m.Op] + " " + m.Path
			if m.Overflow {
				s = "overflow"
			}
			if all = append(all, s); s == want {
				return all
			}
		case <-ctx.Done():
			w.t.Fatalf("no %q among %q", want, all)
		}
	}
}

func TestWatch(t *testing.T) {
	asEach(t, func(t *testing.T, c *client.Client, dir string) {
		must(t, c.MakeDir(limit(t), guest.MakeDir{Path: dir + "/old/er", Parents: true}))
		flat, deep := watch(t, c, guest.Watch{Path: dir}), watch(t, c, guest.Watch{Path: dir, Recursive: true})
		write := func(path string) {
			t.Helper()
			must(t, c.WriteFile(limit(t), guest.WriteFile{Path: dir + "/" + path}, strings.NewReader("x")))
		}
		write("old/er/f")
		deep.until("create old/er/f")
		deep.until("write old/er/f")
		// Whatever is made in a new folder before it is watched is reported too.
		must(t, c.MakeDir(limit(t), guest.MakeDir{Path: dir + "/new/a/b", Parents: true}))
		write("new/a/b/f")
		deep.until("create new/a/b/f")
		must(t, c.Move(limit(t), guest.Move{From: dir + "/new/a", To: dir + "/moved"}))
		deep.until("rename new/a")
		deep.until("create moved/b/f")
		write("moved/b/g")
		deep.until("create moved/b/g")
		must(t, os.Chmod(dir+"/moved/b/g", 0o600))
		deep.until("mode moved/b/g")
		must(t, c.Remove(limit(t), guest.Remove{Path: dir + "/moved", Recursive: true}))
		deep.until("remove moved/b/g")
		deep.until("remove moved")
		write("last")
		got := flat.until("create last")
		want := []string{"create new", "create moved", "remove moved", "create last"}
		got = slices.DeleteFunc(got, func(s string) bool { return strings.HasPrefix(s, "mode ") })
		if !slices.Equal(got, want) {
			t.Errorf("flat watch saw %q, want %q", got, want)
		}
		must(t, os.RemoveAll(dir))
		deep.until("remove .")
	})
}

func TestWatchOfWhatCannotBeWatched(t *testing.T) {
	c, dir := serve(t, self()), t.TempDir()
	put(t, dir+"/f", "")
	none := func(guest.Changed) error { return nil }
	err := c.Watch(limit(t), guest.Watch{Path: dir + "/none"}, nil, none)
	wantError(t, err, sandbox.NotFound, 0, dir+"/none does not exist")
	err = c.Watch(limit(t), guest.Watch{Path: dir + "/f"}, nil, none)
	wantError(t, err, sandbox.Invalid, 0, "is not a folder")
	err = c.Watch(limit(t), guest.Watch{Path: "/proc"}, nil, none)
	wantError(t, err, sandbox.Invalid, 0, "kernel file system")
}

// More folders than can be watched, and more changes than the kernel queues for a slow reader, are reported as lost.
func TestWatchSaysWhatItLost(t *testing.T) {
	if testing.Short() {
		t.Skip("make check: it makes 70,000 changes to a file system")
	}
	c, dir := serve(t, self()), t.TempDir()
	for i := range 10_010 {
		must(t, os.Mkdir(fmt.Sprintf("%s/%d", dir, i), 0o755))
	}
	watch(t, c, guest.Watch{Path: dir, Recursive: true}).until("overflow")

	slow := t.TempDir()
	ctx, cancel := context.WithCancel(limit(t))
	defer cancel()
	ready, hold, lost := make(chan struct{}), make(chan struct{}), errors.New("lost")
	ended := make(chan error, 1)
	go func() {
		ended <- c.Watch(ctx, guest.Watch{Path: slow}, func() { close(ready) }, func(m guest.Changed) error {
			<-hold
			if m.Overflow {
				return lost
			}
			return nil
		})
	}()
	<-ready
	for i := range 60_000 { // more than max_queued_events, and than the stream's credit holds
		name := fmt.Sprintf("%s/%s%d", slow, strings.Repeat("n", 200), i%7)
		if i%2 == 0 {
			put(t, name, "")
		} else {
			os.Remove(fmt.Sprintf("%s/%s%d", slow, strings.Repeat("n", 200), (i-1)%7))
		}
	}
	close(hold)
	if err := <-ended; err != lost {
		t.Errorf("the watch ended with %v, want an overflow", err)
	}
}
