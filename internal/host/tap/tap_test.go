package tap

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/host/fork"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// asOrdinary is set in the process that is an ordinary user, with a device that everyone may open.
const asOrdinary = "FUMEHOOD_TEST_TAP_ORDINARY"

// house is a process in namespaces of its own, which holds them and executes shell commands there.
type house struct {
	*testing.T
	pid, fd int
}

func newHouse(t *testing.T, namespaces uintptr) *house {
	t.Helper()
	if err := Available(); err != nil {
		t.Skip("SKIPPED, NOT TESTED: ", err)
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	n := int(null.Fd())
	o := fork.Order{Paths: []string{"/bin/sleep"}, Argv: []string{"sleep", "600"}, Files: []int{n, n, n},
		Namespaces: namespaces, PIDFD: true}
	pid, fd, err := o.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
		_, _ = unix.Wait4(pid, nil, 0, nil)
		unix.Close(fd)
	})
	return &house{t, pid, fd}
}

// interfaces is what a process there sees.
func (h *house) read(file string) string {
	h.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", h.pid, file))
	if err != nil {
		h.Fatal(err)
	}
	return string(text)
}

// isIn reports whether the interface is in the namespace.
func (h *house) isIn() bool { return strings.Contains(h.read("dev"), sandbox.LinkName+":") }

// connect has a short-lived child open a socket there, and connects that.
func (h *house) connect(own bool, family int, to unix.Sockaddr) {
	h.Helper()
	v := fork.Visit{Of: h.fd, Namespaces: unix.CLONE_NEWNET, Path: os.DevNull,
		Socket: [3]int{family, unix.SOCK_STREAM | unix.SOCK_NONBLOCK, 0}}
	if own {
		v.Namespaces |= unix.CLONE_NEWUSER
	}
	file, socket, err := v.Open()
	if err != nil {
		h.Fatal(err)
	}
	unix.Close(file)
	h.Cleanup(func() { unix.Close(socket) })
	if err := unix.Connect(socket, to); err != unix.EINPROGRESS {
		h.Fatalf("connect: %v", err)
	}
}

// await reads frames until one of this type from the sandbox to the gateway contains the address.
func (h *house) await(end *os.File, kind uint16, address []byte) {
	h.Helper()
	const header = 10 // struct virtio_net_hdr
	want := append(append(append([]byte{}, sandbox.LinkGatewayHardware...), sandbox.LinkHardware...), byte(kind>>8),
		byte(kind))
	frame := make([]byte, 2048)
	if err := end.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		h.Fatal(err) // and so it is not blocking
	}
	for {
		n, err := end.Read(frame)
		if err != nil {
			h.Fatalf("read: %v", err)
		}
		if n > header && bytes.HasPrefix(frame[header:n], want) && bytes.Contains(frame[header:n], address) {
			return
		}
	}
}

// TestLink: what a process sends over the interface arrives at the outer end at once, as TCP over IPv4 and IPv6; there
// is one holder; without one, an interface vanishes or stays, as asked, and can be had again.
func TestLink(t *testing.T) {
	for _, c := range []struct {
		name       string
		namespaces uintptr
		stay       bool
	}{{"vanishes", unix.CLONE_NEWNET, false}, {"stays", unix.CLONE_NEWNET, true},
		{"of a user namespace", unix.CLONE_NEWUSER | unix.CLONE_NEWNET, false}} {
		t.Run(c.name, func(t *testing.T) {
			own := c.namespaces&unix.CLONE_NEWUSER != 0
			if os.Geteuid() != 0 && !own {
				t.Skip("only root makes network namespaces alone")
			}
			h := newHouse(t, c.namespaces)
			at, ctx := Place{FD: h.fd, Own: own}, t.Context()
			if _, err := Take(ctx, at); sandbox.KindOf(err) != sandbox.Unavailable {
				t.Errorf("before there is an interface: %v", err)
			}
			end, err := Make(ctx, at, c.stay)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				h.connect(own, unix.AF_INET, &unix.SockaddrInet4{Port: 443, Addr: [4]byte{192, 0, 2, 1}})
				h.await(end, 0x0800, []byte{192, 0, 2, 1})
				h.connect(own, unix.AF_INET6, &unix.SockaddrInet6{Port: 443, Addr: [16]byte{0x20, 1, 0xd, 0xb8, 15: 9}})
				h.await(end, 0x86dd, []byte{0x20, 1, 0xd, 0xb8})
				neighbour := sandbox.LinkAddress6.Addr().As16() // sent to the gateway, not searched for
				neighbour[15] = 9
				h.connect(own, unix.AF_INET6, &unix.SockaddrInet6{Port: 443, Addr: neighbour})
				h.await(end, 0x86dd, neighbour[:])
				if _, err := Make(ctx, at, c.stay); sandbox.KindOf(err) != sandbox.Busy {
					t.Errorf("a second holder: %v", err)
				}
				if err := end.Close(); err != nil {
					t.Fatal(err)
				}
				if h.isIn() != c.stay {
					t.Errorf("without a holder there is an interface: %v", h.isIn())
				}
				again := Take
				if !c.stay {
					again = func(ctx context.Context, at Place) (*os.File, error) { return Make(ctx, at, false) }
				}
				if end, err = again(ctx, at); err != nil {
					t.Fatal(err)
				}
			}
			if err := end.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestHostKeeps: this process's own namespaces are as before.
func TestHostKeeps(t *testing.T) {
	h := newHouse(t, unix.CLONE_NEWUSER|unix.CLONE_NEWNET)
	before, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	spaces := func() (all string) {
		for _, s := range []string{"net", "user", "mnt"} {
			to, err := os.Readlink("/proc/self/ns/" + s)
			all += to
			if err != nil {
				t.Fatal(err)
			}
		}
		return all
	}
	was := spaces()
	end, err := Make(t.Context(), Place{FD: h.fd, Own: true}, false)
	if err != nil {
		t.Fatal(err)
	}
	defer end.Close()
	if after, err := net.Interfaces(); err != nil || len(after) != len(before) {
		t.Errorf("%d interfaces before, %d after, %v", len(before), len(after), err)
	}
	if is := spaces(); is != was {
		t.Errorf("namespaces before: %s, after: %s", was, is)
	}
	if n, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0); err != nil || n != 1 {
		t.Errorf("dumpable: %d, %v", n, err)
	}
}

// TestOrdinaryUser runs the other tests as an ordinary user, in a mount namespace where everyone may open the device,
// as most distributions have it.
func TestOrdinaryUser(t *testing.T) {
	switch {
	case os.Getenv(asOrdinary) != "":
		t.Skip("this is it")
	case os.Geteuid() != 0:
		t.Skip("only root can become another user")
	}
	const stage = `set -e
mount -t tmpfs -o mode=755 none /mnt; mknod -m 666 /mnt/tun c 10 200; mount --bind /mnt/tun ` + device + `
exec setpriv --reuid=65534 --regid=65534 --clear-groups /proc/self/fd/3 -test.v -test.run='TestLink|TestHostKeeps'`
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	cmd := exec.CommandContext(t.Context(), "unshare", "--mount", "sh", "-c", stage)
	cmd.ExtraFiles, cmd.Dir, cmd.Env = []*os.File{self}, "/", append(os.Environ(), asOrdinary+"=1", "TMPDIR=/tmp")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestLink/of_a_user_namespace") ||
		!strings.Contains(string(out), "--- PASS: TestHostKeeps") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestRefusals: an error says what is wrong with the device, and what helps.
func TestRefusals(t *testing.T) {
	for cause, want := range map[error]string{fs.ErrNotExist: "modprobe tun", unix.EACCES: "chmod 0666",
		unix.ENODEV: "CONFIG_TUN"} {
		err := explain(&fs.PathError{Op: "open", Path: device, Err: cause})
		if sandbox.KindOf(err) != sandbox.Unsupported || !strings.Contains(sandbox.FixOf(err), want) {
			t.Errorf("%v gives %v", cause, err)
		}
	}
	if err := explain(&fork.Error{Step: fork.Join, Errno: unix.ESRCH}); sandbox.KindOf(err) != sandbox.Unavailable ||
		errors.Is(err, unix.EBUSY) {
		t.Error(err)
	}
}

func BenchmarkMake(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		null, _ := os.OpenFile(os.DevNull, os.O_RDWR, 0)
		n := int(null.Fd())
		o := fork.Order{Paths: []string{"/bin/sleep"}, Argv: []string{"sleep", "600"}, Files: []int{n, n, n},
			Namespaces: unix.CLONE_NEWUSER | unix.CLONE_NEWNET, PIDFD: true}
		pid, fd, err := o.Start()
		if err != nil {
			b.Fatal(err)
		}
		null.Close()
		b.StartTimer()
		end, err := Make(b.Context(), Place{FD: fd}, false)
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		end.Close()
		_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
		_, _ = unix.Wait4(pid, nil, 0, nil)
		unix.Close(fd)
		b.StartTimer()
	}
}
