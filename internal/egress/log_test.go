//go:build linux

package egress

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestCounts: a flood of refused attempts is counted exactly, in bounded memory.
func TestCounts(t *testing.T) {
	attempts := 100_000
	if testing.Short() {
		attempts = 5_000 // each is a connection of the kernel's
	}
	p := newPlace(t, allow("site.example"))
	p.do(func() {
		for n := 0; n < attempts; {
			var batch []unix.PollFd // fewer than may be half-open
			for ; n < attempts && len(batch) < maxHalfOpen/2; n++ {
				fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
				if err != nil {
					t.Error(err)
					return
				}
				to := unix.SockaddrInet4{Port: 1 + n%50_000, Addr: [4]byte{11, byte(n >> 8), byte(n), 1}}
				if err := unix.Connect(fd, &to); !errors.Is(err, unix.EINPROGRESS) &&
					!errors.Is(err, unix.ECONNREFUSED) {
					t.Errorf("attempt %d: %v", n, err)
				}
				batch = append(batch, unix.PollFd{Fd: int32(fd), Events: unix.POLLOUT})
			}
			for i := range batch {
				if ready, err := unix.Poll(batch[i:i+1], 20_000); ready != 1 ||
					batch[i].Revents&(unix.POLLHUP|unix.POLLERR) == 0 {
					t.Errorf("an attempt was not refused: %v, %x", err, batch[i].Revents)
				}
				unix.Close(int(batch[i].Fd))
			}
		}
	})
	s := p.gate.Summary()
	if s.Refused != uint64(attempts) || s.Allowed != 0 || s.Protocols[sandbox.ProtocolTCP].Refused != uint64(attempts) {
		t.Errorf("%+v, want %d refused", s.NetworkTotal, attempts)
	}
	var hosts uint64
	for _, h := range s.Hosts {
		hosts += h.Refused
	}
	if hosts != uint64(attempts) || len(s.Hosts) != maxHosts+1 {
		t.Errorf("%d attempts at %d hosts", hosts, len(s.Hosts))
	}
	if kept := p.gate.Last(1 << 30); len(kept) != maxAttempts || kept[len(kept)-1].Seq != uint64(attempts) {
		t.Errorf("%d attempts are kept", len(kept))
	}
	if list := p.gate.Refusals(uint64(attempts-1), 9); len(list) != 1 || list[0].Allow == "" {
		t.Errorf("%v", list)
	}
}
