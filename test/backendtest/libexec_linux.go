package backendtest

import (
	"os"
	"strconv"
	"sync"

	"github.com/fumehood-dev/fumehood/internal/libexec"
)

// The sandboxes' programs come from the folder FUMEHOOD_LIBEXEC, or are built once per process.
var (
	guestProgram = sync.OnceValues(func() (*os.File, error) { return program(libexec.Guest) })
	runscProgram = sync.OnceValues(func() (*os.File, error) { return program(libexec.Runsc) })
)

// Guest opens the guest program; the caller closes it.
func Guest() (*os.File, error) { return openAnew(guestProgram()) }

// Runsc opens gVisor's runsc; the caller closes it.
func Runsc() (*os.File, error) { return openAnew(runscProgram()) }

func program(find func(libexec.Options) (libexec.Program, error)) (*os.File, error) {
	dir, err := os.MkdirTemp("", "fumehood-programs-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) // what was opened is a copy
	found, err := find(libexec.Options{Dir: os.Getenv("FUMEHOOD_LIBEXEC"), CacheDir: dir})
	if err != nil {
		return nil, err
	}
	return found.Open()
}

// openAnew opens a file again, with its own offset.
func openAnew(f *os.File, err error) (*os.File, error) {
	if err != nil {
		return nil, err
	}
	return os.Open("/proc/self/fd/" + strconv.Itoa(int(f.Fd())))
}
