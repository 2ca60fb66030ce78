package native

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/sandbox"
)

func TestWorkspace(t *testing.T) {
	b := open(t, "")
	dir := t.TempDir()
	uid, gid := os.Geteuid(), os.Getegid()
	if uid == 0 {
		uid, gid = 4321, 4322 // somebody's
		if err := os.Chown(dir, uid, gid); err != nil {
			t.Fatal(err)
		}
	}
	s := spec()
	s.Workspace = dir
	box := create(t, b, s)
	o := run(t, box, "/bin/sh", "-c",
		"id -u; stat -c %u . ; echo hello > made; chmod 4755 made; ls /workspace; ln -s /etc/passwd link; cat ../etc/hostname")
	if !strings.HasPrefix(o.stdout, "1000\n1000\nmade\n") || !strings.Contains(o.stderr, "ermitted") {
		t.Fatalf("got %+v", o)
	}
	info, err := os.Lstat(filepath.Join(dir, "made"))
	if err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	if err := unix.Lstat(filepath.Join(dir, "made"), &st); err != nil {
		t.Fatal(err)
	}
	if info.Mode()&os.ModeSetuid != 0 {
		t.Error("a set-id bit reached a file of the host")
	}
	if int(st.Uid) != uid || int(st.Gid) != gid {
		t.Errorf("the file belongs to %d:%d on the host, its folder to %d:%d", st.Uid, st.Gid, uid, gid)
	}
}

// A named disk limit is refused if the code can write to the host's disk, unless it is waived.
func TestWorkspaceHasNoDiskLimit(t *testing.T) {
	b := open(t, "")
	s := spec()
	s.Workspace = t.TempDir()
	s.Named = []sandbox.LimitName{sandbox.LimitDisk}
	_, err := b.Create(context.Background(), s)
	if sandbox.KindOf(err) != sandbox.Unsupported || !slices.Contains(sandbox.UnenforcedOf(err), sandbox.LimitDisk) {
		t.Errorf("%v, %s", err, sandbox.FixOf(err))
	}
	s.AllowUnenforced = append(s.AllowUnenforced, string(sandbox.LimitDisk))
	if p := create(t, b, s).Effective(); !slices.Contains(p.Unenforced, "disk") ||
		!strings.Contains(p.Enforcers[sandbox.LimitDisk], "not for") {
		t.Errorf("%+v", p)
	}
}

func TestMounts(t *testing.T) {
	b := open(t, "")
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "x"), []byte("data"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	s := spec()
	s.Mounts = []sandbox.Mount{{Source: dir, Target: "/data/in"}}
	box := create(t, b, s)
	if o := run(t, box, "/bin/sh", "-c", "cat /data/in/x; echo y > /data/in/y"); o.stdout != "data" ||
		o.exited.Code == 0 {
		t.Errorf("got %+v", o)
	}
	for _, m := range []sandbox.Mount{
		{Source: dir, Target: "/proc"}, {Source: dir, Target: "relative"}, {Source: dir, Target: "/a/../etc"},
		{Source: dir, Target: "/"},
		{Source: dir + "/missing", Target: "/data"}, {Source: dir, Target: "/usr/no/such/place"},
		{Source: dir, Target: "/dev/shm"},
	} {
		s := spec()
		s.Mounts = []sandbox.Mount{m}
		box, err := b.Create(context.Background(), s)
		if err == nil {
			box.Close()
		}
		if k := sandbox.KindOf(err); k != sandbox.Invalid {
			t.Errorf("%+v: %v (%v)", m, err, k)
		}
	}
}

// TestManyMounts: however many descriptors come with the plan, the guest's kept ones do not collide with Landlock's.
func TestManyMounts(t *testing.T) {
	b := open(t, "")
	dir, err := os.MkdirTemp("", "mounts") // open to the ids of sandboxes, which t.TempDir is not
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	s := spec()
	for n := range 64 {
		if s.Mounts = append(s.Mounts, sandbox.Mount{Source: dir, Target: "/m/" + strconv.Itoa(n)}); n < 48 {
			continue
		}
		s.ID = sandbox.NewID()
		box, err := b.Create(context.Background(), s)
		if err != nil {
			t.Fatal(err)
		}
		if o := run(t, box, "/bin/ls", "/m"); strings.Count(o.stdout, "\n") != len(s.Mounts) {
			t.Errorf("%d mounts: %+v", len(s.Mounts), o)
		}
		if err := box.Close(); err != nil {
			t.Error(err)
		}
	}
}
