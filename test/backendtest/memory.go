package backendtest

import (
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// fill runs code that takes memory until it is killed at a limit, and returns how much it held. Both are in MiB.
func (s *suite) fill(t *testing.T, limit int64) (held int64) {
	t.Helper()
	r := python(`
held = [open('/tmp/f', 'wb', 0).write(bytes(16 << 20))]
while True:
    held.append(b'x' * (1 << 20))
    print(15 + len(held), flush=True)`)
	result := s.limited(t, r, sandbox.Limits{MemoryBytes: limit * mib})
	wantStatus(t, result, sandbox.StatusOutOfMemory)
	if h := bound(result); h.Limit != sandbox.LimitMemory || h.Value != limit*mib {
		t.Errorf("the hint %+v does not name the limit", h)
	}
	if result.Usage.OOMKills < 1 {
		t.Errorf("usage %s", describe(result.Usage))
	}
	lines := strings.Fields(string(result.Stdout.Head))
	if len(lines) == 0 {
		return 0
	}
	held, err := strconv.ParseInt(lines[len(lines)-1], 10, 64)
	if err != nil {
		t.Error(err)
	}
	return held
}

func testMemory(t *testing.T, s *suite) {
	type answer struct {
		result *sandbox.Result
		err    error
	}
	started := make(chan struct{})
	var once atomic.Bool
	beside := make(chan answer, 1)
	go func() {
		r := sh("echo up; sleep 1; echo well")
		r.Request.Output = func(sandbox.Stream, []byte) {
			if once.CompareAndSwap(false, true) {
				close(started)
			}
		}
		result, err := s.engine.Run(within(t), r)
		beside <- answer{result, err}
	}()
	select {
	case <-started:
	case a := <-beside:
		t.Fatalf("the run beside ended at once: %+v", a)
	}
	// The limit covers files too, and the interpreter and the guest. A backend with its own kernel adds a share for
	// that kernel. Its guest watches the limit: the code may use a margin of the share, and more while the guest waits
	// for a processor, but never all of it.
	const limit, margin, share, tries = 64, 8, 96, 3
	for try := 1; ; try++ {
		held := s.fill(t, limit)
		if held > limit+share || held < limit/2 || held > limit+margin && try == tries {
			t.Errorf("it held %d MiB under a limit of %d", held, limit)
		}
		if held <= limit+margin || try == tries {
			break
		}
	}
	a := <-beside
	if a.err != nil {
		t.Fatal(a.err)
	}
	wantOutput(t, a.result, "up\nwell\n")
	fits := s.limited(t, python("x = bytearray(20 << 20); print(len(x))"), sandbox.Limits{MemoryBytes: 64 * mib})
	wantOutput(t, fits, "20971520\n")
}
