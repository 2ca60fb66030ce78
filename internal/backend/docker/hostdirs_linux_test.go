package docker

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/host/fork"
	"github.com/fumehood-dev/fumehood/internal/host/hostbox"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestThreadToSpare: namespace changes never happen on the process's first thread, which Go reuses for anything.
func TestThreadToSpare(t *testing.T) {
	var all sync.WaitGroup
	for range 200 {
		all.Go(func() {
			fork.OnOwnThread(func() {
				if unix.Gettid() == os.Getpid() {
					t.Error("it runs on the first thread")
				}
			})
		})
	}
	all.Wait()
}

// TestOwnNamespace: after mounting in containers, this process still sees its own mounts.
func TestOwnNamespace(t *testing.T) {
	b := open(t, options(t, Name))
	before, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		s := spec()
		s.Mounts = []sandbox.Mount{{Source: t.TempDir(), Target: "/mnt/x", Writable: true}}
		if out := run(t, create(t, b, s), "echo x > /mnt/x/file && echo wrote"); out != "wrote\n" {
			t.Errorf("it says %q", out)
		}
	}
	if after, err := os.Readlink("/proc/self/ns/mnt"); err != nil || after != before {
		t.Errorf("the mount namespace was %s and is %s (%v)", before, after, err)
	}
}

// TestShown: the engine follows links that code has made after the check of a path, so it gets an empty folder or file
// in place of what is mounted without links later.
func TestShown(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED, NOT TESTED: only root mounts in containers")
	}
	box := &Box{Core: hostbox.Core{Dir: "/box"}, to: &connection{local: true}}
	s := spec()
	folder, file := t.TempDir(), filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.Mounts = []sandbox.Mount{{Source: folder, Target: "/a"}, {Source: file, Target: "/b"},
		{Source: folder, Target: "/c/d"}, {Source: folder, Target: "/c"},
		{Source: folder, Target: "/e", Writable: true}}
	want := []sandbox.Mount{{Source: "/box/" + emptyFolder, Target: "/a"}, {Source: "/box/" + emptyFile, Target: "/b"},
		{Source: "/box/" + emptyFolder, Target: "/c"}, {Source: "/box/" + emptyFolder, Target: "/e"}}
	if got := box.shown(&s); !reflect.DeepEqual(got, want) {
		t.Errorf("the engine mounts %+v", got)
	}
	box.to.local = false
	if got := box.shown(&s); !reflect.DeepEqual(got, s.Mounts) {
		t.Errorf("without root, the engine mounts %+v", got)
	}
}

// TestShowWritableOnlyToGuest: nothing is mounted for a process that is not the guest, whatever pid the engine reports.
func TestShowWritableOnlyToGuest(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED, NOT TESTED: only root maps owners")
	}
	box := &Box{to: &connection{local: true}}
	s := spec()
	s.Mounts = []sandbox.Mount{{Source: t.TempDir(), Target: t.TempDir(), Writable: true}}
	if err := box.showMapped(&s, os.Getpid()); err == nil || !strings.Contains(err.Error(), "not the sandbox") {
		t.Errorf("it says %v", err)
	}
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || strings.Contains(string(text), s.Mounts[0].Target) {
		t.Errorf("it was mounted on the host: %v", err)
	}
}

// TestTargets: a target that cannot be used is the request's fault.
func TestTargets(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED, NOT TESTED: only root enters mount namespaces")
	}
	namespace, err := os.Open("/proc/self/ns/mnt")
	if err != nil {
		t.Fatal(err)
	}
	defer namespace.Close()
	dir := t.TempDir()
	if err := os.Symlink("/", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for target, want := range map[string]string{"link/tmp": "symbolic link", "none": "does not exist"} {
		fork.OnOwnThread(func() { err = attach(namespace, []entry{{-1, filepath.Join(dir, target)}}) })
		if sandbox.KindOf(err) != sandbox.Invalid || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", target, err)
		}
	}
}
