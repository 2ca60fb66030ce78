//go:build vm

package docker

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/fumehood-dev/fumehood/sandbox"
	"github.com/fumehood-dev/fumehood/test/backendtest"
)

// ownImage packs Bash and Python from this machine: there is no network to fetch an image.
const ownImage = `tar -C / -c --exclude=usr/lib/modules --exclude='libnode*' --exclude='libicu*' --exclude='libv8*' --exclude=__pycache__ \
	bin sbin lib lib64 usr/bin usr/lib/python3 usr/lib/python3.11 usr/lib/x86_64-linux-gnu usr/lib64 usr/sbin/ldconfig etc/passwd etc/group etc/ld.so.cache | `

// TestWallsRootless: with cgroup v2 delegated by systemd, a rootless engine enforces the limits.
func TestWallsRootless(t *testing.T) {
	dir := shortDir(t)
	storage := storageIn(dir, "overlay") // the other driver copies the image for each container
	pack := exec.Command("/bin/sh", "-c", ownImage+Podman+" "+strings.Join(storage, " ")+" import - "+testImage)
	if out, err := pack.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	host := servePodman(t, dir, storage, os.Environ(), &syscall.SysProcAttr{Setpgid: true})
	backendtest.Walls(t, func(t *testing.T) sandbox.Backend {
		b := open(t, Options{Name: Podman, Host: host, RunDir: filepath.Join(t.TempDir(), "run"), Image: testImage,
			Guest: guestProgram})
		// its first answer is slow on an emulated processor
		if _, err := b.engine.connect(within(t), stepTimeout); err != nil {
			t.Fatal(err)
		}
		return b
	})
}
