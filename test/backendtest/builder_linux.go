package backendtest

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// builderCases need a host on which root can make writable roots.
var builderCases = []testCase{
	{"changes of a root", "the changes of a writable root are a layer, without what is not for images", testChanges},
	{"unchanged root", "making a builder changes no root, even one with odd links", testUnchangedRoot},
	{"bounds of a root", "the changes of a writable root are bounded in bytes and entries", testRootBounds},
	{"root inside", "root of a builder has few rights inside, and none over the guest", testRootInside},
	{"memory of a root", "files of a root and memory of programs have one limit", testRootMemory},
	{"end of a builder", "limits and a cancel end root's processes, and nothing is handed over", testBuilderEnds},
	{"refused roots", "a writable root is for one-shot sandboxes with a folder", testRefusedRoots},
}

// builderTools are the programs of the roots of these tests.
var builderTools = []string{"bash", "cat", "chmod", "chown", "cp", "grep", "head", "id", "ln", "ls", "mkdir", "mkfifo",
	"mknod", "mount", "mv", "rm", "setsid", "sleep", "stat", "touch", "unshare"}

// toolRoot makes a root with programs of this host, and some files.
func toolRoot(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	var programs []string
	for _, tool := range builderTools {
		file, err := exec.LookPath(tool)
		if err != nil {
			t.Fatal(err)
		}
		programs = append(programs, file)
	}
	copyFiles(t, root, append(programs, librariesOf(t, programs...)...))
	for name, content := range map[string]string{"a": "a", "d/b": "b", "e/c": "c", "etc/hosts": "its own",
		"etc/passwd": "root:x:0:0::/root:/bin/bash\nweb:x:33:33::/:/bin/bash\n"} {
		file := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755),
			os.WriteFile(file, []byte(content), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{"tmp", "workspace"} {
		dir = filepath.Join(root, dir)
		if err := errors.Join(os.Mkdir(dir, 0o755), os.Chmod(dir, 0o777|os.ModeSticky)); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// inBuilder returns a run of a script as root of a builder.
func inBuilder(t *testing.T, script string) engine.OneShot {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED, NOT TESTED: writable roots need root")
	}
	r := sh(script)
	r.Spec.Root = sandbox.Root{Dir: toolRoot(t), Writable: true}
	r.Spec.Env = []string{"PATH=/usr/bin:/bin:/usr/sbin:/sbin"}
	r.Spec.Limits = sandbox.Limits{DiskBytes: 16 << 20, Inodes: 2000, MemoryBytes: 256 << 20, Pids: 64}
	r.Request.Dir = "/"
	return r
}

// layerOf lists the entries of a layer: name, mode and owner, and the content or the target of a link.
func layerOf(layer io.Reader) (list []string, err error) {
	for archive := tar.NewReader(layer); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			slices.Sort(list)
			return list, nil
		}
		if err != nil {
			return nil, err
		}
		content, err := io.ReadAll(archive)
		if err != nil {
			return nil, err
		}
		list = append(list, fmt.Sprintf("%s %o %d:%d %s%s", h.Name, h.Mode, h.Uid, h.Gid, content, h.Linkname))
	}
}

func testChanges(t *testing.T, s *suite) {
	r := inBuilder(t, `set -e
rm /a; rm -r /e; mkdir /e; echo -n new > /e/new; echo -n other > /d/b
ln -s /etc/passwd /link; ln /e/new /d/same
cp /d/b /own; chown 33:44 /own; chmod 2750 /own; echo -n more >> /own
mkdir -m 1777 /sticky; mkdir /sticky/deep; mv /sticky/deep /sticky/moved
mkfifo /pipe 2> /dev/null || :
mknod /null c 1 3 2> /dev/null && echo made a device
echo changed > /etc/hosts; touch /dev/x /dev/shm/x 2> /dev/null || :
echo > /.wh.d; echo -n kept > /tmp/kept
cat /own /e/new; stat -c '%u:%g %a' /own`)
	var layer []string
	r.Changes = func(changes io.Reader) (err error) {
		layer, err = layerOf(changes)
		return err
	}
	wantOutput(t, s.run(t, r), "othermorenew33:44 750\n")
	want := []string{".wh.a 0 0:0 ", "d/ 755 0:0 ", "d/b 644 0:0 other", "d/same 644 0:0 new", "e/ 755 0:0 ",
		"e/.wh..wh..opq 0 0:0 ", "e/new 644 0:0 d/same", "etc/ 755 0:0 ", "link 777 0:0 /etc/passwd",
		"own 750 33:44 othermore", "sticky/ 1777 0:0 ", "sticky/moved/ 755 0:0 ", "tmp/ 1777 0:0 ",
		"tmp/kept 644 0:0 kept"}
	if !slices.Equal(layer, want) {
		t.Errorf("the layer has\n%s\nwant\n%s", strings.Join(layer, "\n"), strings.Join(want, "\n"))
	}
}

func testUnchangedRoot(t *testing.T, s *suite) {
	for name, change := range map[string]func(root string) error{
		"as it is": func(string) error { return nil },
		"no /tmp":  func(root string) error { return os.Remove(filepath.Join(root, "tmp")) },
		"links": func(root string) error {
			err := os.Remove(filepath.Join(root, "tmp"))
			for link, target := range map[string]string{"tmp": "e", "dev": "/", "proc": "../..", "sys": "/proc/1"} {
				err = errors.Join(err, os.Symlink(target, filepath.Join(root, link)))
			}
			return err
		},
	} {
		r := inBuilder(t, "cd /; echo *")
		if err := change(r.Spec.Root.Dir); err != nil {
			t.Fatal(err)
		}
		var layer []string
		r.Changes = func(changes io.Reader) (err error) {
			layer, err = layerOf(changes)
			return err
		}
		result := s.run(t, r)
		wantStatus(t, result, sandbox.StatusSucceeded)
		if !slices.Equal(layer, []string{"etc/ 755 0:0 "}) {
			t.Errorf("%s: the layer has %q; the root has %s", name, layer, result.Stdout.Head)
		}
	}
}

func testRootBounds(t *testing.T, s *suite) {
	r := inBuilder(t, `head -c 32M /dev/zero > /big || rm /big
i=0; while : 2> /dev/null > /$i; do i=$((i+1)); test $i -lt 2100 || break; done
test $i -lt 2100 && echo bounded; rm /0; echo goes on > /file; cat /file`)
	result := s.run(t, r)
	wantOutput(t, result, "bounded\ngoes on\n")
	if !strings.Contains(string(result.Stderr.Head), "No space left") {
		t.Errorf("32 MiB fit into 16: %s", result.Stderr.Head)
	}
}

func testRootInside(t *testing.T, s *suite) {
	r := inBuilder(t, `grep -c '^Cap\(Prm\|Eff\|Bnd\):.*00eb$' /proc/self/status
mount -t tmpfs none /tmp 2> /dev/null && echo mounted
unshare -U true 2> /dev/null && echo unshared
cat /proc/1/environ 2> /dev/null; ls /proc/1/root/ /proc/1/cwd/ 2> /dev/null; stat -L /proc/1/fd/* 2> /dev/null
ls -d /dev/.fumehood/* 2> /dev/null; for n in vda sda nvme0n1 kmsg mem; do test -e /dev/$n && echo sees $n; done
cp /usr/bin/id /id; chown 33 /id; chmod 4755 /id; /id -u
cp /usr/bin/id /mine; chmod 4755 /mine; echo done`)
	wantOutput(t, s.run(t, r), "3\n0\ndone\n")
	r = inBuilder(t, "id -u; touch /x 2> /dev/null || echo refused; grep -c '^CapEff:.*0000$' /proc/self/status")
	r.Spec.User = sandbox.User{UID: 33, GID: 33}
	result := s.run(t, r)
	wantOutput(t, result, "33\nrefused\n1\n")
	if walls := fmt.Sprint(result.Effective.Walls); !strings.Contains(walls, "writable: ") ||
		!strings.Contains(walls, "DAC_OVERRIDE") || strings.Contains(walls, "read-only tree") {
		t.Errorf("the policy has the walls %s", walls)
	}
}

func testRootMemory(t *testing.T, s *suite) {
	r := inBuilder(t, "head -c 180M /dev/zero > /file; x=0123456789; while :; do x=$x$x; done")
	r.Spec.Limits.DiskBytes = 200 << 20
	wantStatus(t, s.run(t, r), sandbox.StatusOutOfMemory)
}

func testBuilderEnds(t *testing.T, s *suite) {
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	for _, c := range []struct {
		want   sandbox.Status
		script string
		change func(*engine.OneShot)
	}{
		{sandbox.StatusTimeout, "f() { f | f & f; }; f; while :; do :; done", func(r *engine.OneShot) {
			r.Spec.Limits.Pids, r.Spec.Limits.Timeout = 32, time.Second
		}},
		{sandbox.StatusCanceled, "echo; while :; do echo x >> /file; done", func(r *engine.OneShot) {
			r.Request.Output = func(sandbox.Stream, []byte) { cancel() }
		}},
	} {
		r := inBuilder(t, c.script)
		r.Changes = func(io.Reader) error { t.Errorf("%s: there are changes", c.want); return nil }
		c.change(&r)
		result, err := s.engine.Run(ctx, r)
		if err != nil {
			t.Fatalf("%s: %v", c.want, err)
		}
		wantStatus(t, result, c.want)
	}
}

func testRefusedRoots(t *testing.T, s *suite) {
	inBuilder(t, "")
	for name, change := range map[string]func(*sandbox.Spec){
		"no folder": func(spec *sandbox.Spec) { spec.Root.Dir = "" },
		"living":    func(spec *sandbox.Spec) { spec.Lifetime.Living = true },
		"workspace": func(spec *sandbox.Spec) { spec.Workspace = t.TempDir() },
	} {
		spec := spec()
		spec.Root = sandbox.Root{Dir: t.TempDir(), Writable: true}
		change(&spec)
		if _, err := s.backend.Create(within(t), spec); sandbox.KindOf(err) != sandbox.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}
