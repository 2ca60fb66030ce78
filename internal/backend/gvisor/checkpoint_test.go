package gvisor

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/internal/guest/client"
	"github.com/fumehood-dev/fumehood/internal/host/hostbox"
	"github.com/fumehood-dev/fumehood/sandbox"
	"github.com/fumehood-dev/fumehood/test/backendtest"
)

func livingSpec() sandbox.Spec {
	s := spec()
	s.Lifetime = sandbox.Lifetime{Living: true}
	return s
}

func checkpointInto(box *Box, dir string) error {
	ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
	defer cancel()
	return box.Checkpoint(ctx, dir)
}

// background starts Python in a box, and waits until it is ready.
func background(t *testing.T, box *Box, program string) (id string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
	defer cancel()
	c := greet(t, box)
	id = string(sandbox.NewID())
	p, err := c.Start(ctx, guest.Start{ID: id, Argv: []string{"/usr/bin/python3", "-u", "-c", program},
		Env: sandbox.DefaultEnv, Dir: sandbox.Workspace,
		User: sandbox.DefaultUser, Stdin: guest.StdinPipe})
	if err != nil {
		t.Fatal(err)
	}
	if said := firstLine(t, p); said != "ready" {
		t.Fatalf("it says %q", said)
	}
	return id
}

func firstLine(t *testing.T, p *client.Process) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
	defer cancel()
	var said []byte
	enough := errors.New("enough")
	exited, err := p.Stream(ctx, func(o guest.Output) error {
		if said = append(said, o.Data...); strings.HasSuffix(string(said), "\n") {
			return enough
		}
		return nil
	}, false)
	if !errors.Is(err, enough) {
		t.Fatalf("it said %q, %v and ended with %d", said, err, exited.Code)
	}
	return strings.TrimSpace(string(said))
}

// answer lets a background program continue, and returns its whole output.
func answer(t *testing.T, box sandbox.Box, id string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
	defer cancel()
	p, err := greet(t, box).Attach(ctx, guest.Attach{ID: id})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.CloseStdin(ctx); err != nil {
		t.Fatal(err)
	}
	var said []byte
	if _, err := p.Stream(ctx, func(o guest.Output) error { said = append(said, o.Data...); return nil },
		true); err != nil {
		t.Fatal(err)
	}
	return string(said)
}

// much is a program with a heap, threads, an open unlinked file, a pipe, a child and a loopback server.
const much = `
import os, socket, subprocess, sys, tempfile, threading
heap = bytearray(os.urandom(1 << 20)) * 32
before = hash(bytes(heap))
file = tempfile.TemporaryFile()
file.write(b"written before"); file.flush()
go, done = threading.Event(), []
def work():
    go.wait(); done.append(1)
threads = [threading.Thread(target=work) for _ in range(4)]
for t in threads: t.start()
server = socket.create_server(("127.0.0.1", 7007))
child = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
child.stdin.write(b"half "); child.stdin.flush()
print("ready")
sys.stdin.read()
go.set()
for t in threads: t.join()
file.seek(0)
client = socket.create_connection(("127.0.0.1", 7007)); peer, _ = server.accept()
client.sendall(b"hello")
child.stdin.write(b"whole"); child.stdin.close()
print(hash(bytes(heap)) == before, len(done), file.read(), peer.recv(5), child.stdout.read(), child.wait())
`

func TestCheckpointOfMuch(t *testing.T) {
	backendtest.ForCheck(t, "checkpoints")
	b := openIn(t, filepath.Join(t.TempDir(), "run"), "")
	box := create(t, b, livingSpec())
	id := background(t, box, much)
	dir := t.TempDir()
	if err := checkpointInto(box, dir); err != nil {
		t.Fatal(err)
	}
	const want = "ready\nTrue 4 b'written before' b'hello' b'half whole' 0\n"
	if said := answer(t, box, id); said != want {
		t.Errorf("the one that was saved says %q", said)
	}
	if err := box.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := b.Restore(context.Background(), dir, livingSpec())
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if said := answer(t, again, id); said != want {
		t.Errorf("the one that was restored says %q", said)
	}
}

// TestRestoreElsewhere restores with a new backend, after everything of the sandbox is gone.
func TestRestoreElsewhere(t *testing.T) {
	backendtest.ForCheck(t, "checkpoints")
	dir := t.TempDir()
	first := openIn(t, filepath.Join(t.TempDir(), "run"), "")
	box := create(t, first, livingSpec())
	id := background(t, box, much)
	if err := checkpointInto(box, dir); err != nil {
		t.Fatal(err)
	}
	if err := box.Close(); err != nil {
		t.Fatal(err)
	}
	second := openIn(t, filepath.Join(t.TempDir(), "run"), "")
	once := livingSpec()
	once.Lifetime = sandbox.Lifetime{}
	again, err := second.Restore(context.Background(), dir, once)
	if err != nil {
		t.Fatal(err)
	}
	if said := answer(t, again, id); !strings.Contains(said, "True 4") {
		t.Errorf("it says %q", said)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	if list := left(second, again.ID()); len(list) > 0 {
		t.Errorf("left: %v", list)
	}
}

// TestCheckpointFails makes checkpoints fail; the sandbox continues, and can be saved afterwards.
func TestCheckpointFails(t *testing.T) {
	backendtest.ForCheck(t, "checkpoints, and mounts on the host")
	b := openIn(t, filepath.Join(t.TempDir(), "run"), "")
	full := t.TempDir()
	if err := unix.Mount("full", full, "tmpfs", 0, "size=64k"); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(full, unix.MNT_DETACH)
	for _, c := range []struct {
		name string
		save func(box *Box) error
	}{
		{"the disk is full", func(box *Box) error { return checkpointInto(box, full) }},
		{"canceled", func(box *Box) error {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
			defer cancel()
			return box.Checkpoint(ctx, t.TempDir())
		}},
		{"nowhere", func(box *Box) error { return checkpointInto(box, "/nonexistent") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			box := create(t, b, livingSpec())
			id := background(t, box, much)
			if err := c.save(box); err == nil {
				t.Error("it did not fail")
			} else {
				t.Logf("%.300v", err)
			}
			dir := t.TempDir()
			if err := checkpointInto(box, dir); err != nil {
				t.Fatalf("afterwards: %.500v", err)
			}
			if said := answer(t, box, id); !strings.Contains(said, "True 4") {
				t.Errorf("it says %q", said)
			}
		})
	}
}

// TestCheckpointBesideHostSocket: gVisor cannot save a sandbox whose program has bound a socket in a host directory.
func TestCheckpointBesideHostSocket(t *testing.T) {
	backendtest.ForCheck(t, "checkpoints")
	b := openIn(t, filepath.Join(t.TempDir(), "run"), "")
	s := livingSpec()
	s.Workspace = t.TempDir()
	if err := os.Chmod(s.Workspace, 0o777); err != nil {
		t.Fatal(err)
	}
	box := create(t, b, s)
	id := background(t, box, `
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.bind("/workspace/socket"); s.listen()
print("ready")
sys.stdin.read()
print("goes on")
`)
	err := checkpointInto(box, t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "unix socket in a host directory") {
		t.Errorf("a socket is bound on the host, and it says %.300v", err)
	}
	if said := answer(t, box, id); said != "ready\ngoes on\n" {
		t.Errorf("it says %q", said)
	}
}

// TestForbidFollowsNoLink: the guest may put a link where the server makes a file.
func TestForbidFollowsNoLink(t *testing.T) {
	dir, outside := t.TempDir(), filepath.Join(t.TempDir(), "outside")
	if err := os.Mkdir(filepath.Join(dir, socketFolder), 0o700); err != nil {
		t.Fatal(err)
	}
	box := &Box{Box: &hostbox.Box{Core: hostbox.Core{Dir: dir}}}
	for range 2 { // what an earlier checkpoint left is in nobody's way
		if err := os.WriteFile(outside, []byte("kept"), 0o600); err != nil {
			t.Fatal(err)
		}
		_ = os.Symlink(outside, box.holdFile())
		if err := box.forbid(); err != nil {
			t.Fatal(err)
		}
		if text, err := os.ReadFile(outside); err != nil || string(text) != "kept" {
			t.Errorf("outside is %q, %v", text, err)
		}
		if info, err := os.Lstat(box.holdFile()); err != nil || !info.Mode().IsRegular() {
			t.Errorf("%v, %v", info, err)
		}
	}
}

// TestCheckpointIsPrivate: only its owner can read a checkpoint, and none is restored that somebody else could have
// written.
func TestCheckpointIsPrivate(t *testing.T) {
	backendtest.ForCheck(t, "checkpoints")
	b := openIn(t, filepath.Join(t.TempDir(), "run"), "")
	box := create(t, b, livingSpec())
	strangers, full, open := t.TempDir(), t.TempDir(), t.TempDir()
	err := errors.Join(os.Chown(strangers, 65534, 65534), os.Chmod(open, 0o755), os.Chmod(full, 0o755),
		os.WriteFile(filepath.Join(full, "x"), nil, 0o600))
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{strangers, full} {
		if err := checkpointInto(box, dir); sandbox.KindOf(err) != sandbox.Invalid {
			t.Errorf("saved into %s: %v", dir, err)
		}
	}
	if info, err := os.Stat(full); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("a folder that holds something is %v now, %v", info.Mode(), err)
	}
	if err := checkpointInto(box, open); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(open); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the checkpoint's folder is %v, %v", info.Mode(), err)
	}
	for _, spoil := range []func() error{func() error { return os.Chmod(open, 0o720) },
		func() error { return errors.Join(os.Chmod(open, 0o700), os.Chown(open, 65534, 0)) }} {
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		if again, err := b.Restore(context.Background(), open, livingSpec()); sandbox.KindOf(err) != sandbox.Invalid {
			if err == nil {
				again.Close()
			}
			t.Errorf("restored: %v", err)
		}
	}
}

// TestRestoreOfAnotherVersion: a checkpoint with another layout is refused with a reason; gVisor would give none.
func TestRestoreOfAnotherVersion(t *testing.T) {
	b := openIn(t, filepath.Join(t.TempDir(), "run"), "")
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	image, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer image.Close()
	if err := (saved{Form: savedForm - 1, Key: make([]byte, guest.KeySize),
		Spec: livingSpec()}).write(image); err != nil {
		t.Fatal(err)
	}
	_, err = b.Restore(context.Background(), dir, livingSpec())
	if sandbox.KindOf(err) != sandbox.Invalid || sandbox.FixOf(err) == "" ||
		!strings.Contains(err.Error(), "another version") {
		t.Errorf("it says %v", err)
	}
}

// TestRestoreOfAnotherSystem: a system file that was open in a checkpoint and has changed would be read with its old
// length. The error names it, and nothing is started; other files may change.
func TestRestoreOfAnotherSystem(t *testing.T) {
	backendtest.ForCheck(t, "checkpoints, and mounts on the host")
	folder := t.TempDir()
	usr := filepath.Join(folder, "usr")
	module := filepath.Join(usr, "module.py")
	for _, name := range []string{"bin", "lib", "lib64"} {
		dir := filepath.Join(usr, name)
		if err := errors.Join(os.MkdirAll(dir, 0o755), os.Symlink("usr/"+name, filepath.Join(folder, name)),
			unix.Mount("/usr/"+name, dir, "", unix.MS_BIND, "")); err != nil {
			t.Fatal(err)
		}
		defer unix.Unmount(dir, unix.MNT_DETACH)
	}
	if err := os.WriteFile(module, []byte("x = 1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	b := openIn(t, filepath.Join(t.TempDir(), "run"), "")
	s := livingSpec()
	s.Root = sandbox.Root{Dir: folder}
	box := create(t, b, s)
	background(t, box, `import sys; f = open("/usr/module.py"); print("ready"); sys.stdin.read()`)
	dir := t.TempDir()
	if err := checkpointInto(box, dir); err != nil {
		t.Fatal(err)
	}
	restore := func() error {
		again := livingSpec()
		again.Root = s.Root
		restored, err := b.Restore(context.Background(), dir, again)
		if err != nil {
			return err
		}
		return restored.Close()
	}
	if err := os.WriteFile(filepath.Join(usr, "new.py"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := restore(); err != nil {
		t.Errorf("with a file more: %v", err)
	}
	if err := os.WriteFile(module, []byte("x = 1  # longer\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := restore(); sandbox.KindOf(err) != sandbox.Invalid || !strings.Contains(err.Error(), "/usr/module.py") ||
		sandbox.FixOf(err) == "" {
		t.Errorf("with a file that was open and is another now: %v", err)
	}
	if err := errors.Join(os.Remove(module), unix.Mkfifo(module, 0o644)); err != nil {
		t.Fatal(err)
	}
	if err := restore(); sandbox.KindOf(err) != sandbox.Invalid {
		t.Errorf("with a pipe in its place: %v", err)
	}
}
