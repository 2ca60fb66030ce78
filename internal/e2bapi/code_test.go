package e2bapi

import (
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/internal/httpd"
)

// client is a client whose read calls a function.
type client struct{ read func() }

func (client) Header() http.Header { return http.Header{} }
func (client) WriteHeader(int)     {}
func (c client) Write(p []byte) (int, error) {
	c.read()
	return len(p), nil
}

func heapSize() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// allocated returns how many bytes a function allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestLargeLine: a line with a text that JSON makes six times as long is encoded in pieces.
func TestLargeLine(t *testing.T) {
	text := strings.Repeat("\x01", 4<<20)
	before, held := heapSize(), int64(0)
	read := sync.OnceFunc(func() { held = heapSize() - before })
	l := &lines{w: httpd.NewResponse(client{read}, time.Minute)}
	_ = l.write(map[string]any{"html": text}) // client cannot flush
	if held == 0 || held > int64(len(text)) {
		t.Errorf("%d bytes are held while a client reads, besides a text of %d", held, len(text))
	}
}

// TestDedentedLines: indentation is removed in memory of the code's size, however many lines it has.
func TestDedentedLines(t *testing.T) {
	code := " a" + strings.Repeat("\n", 1<<20)
	if n := allocated(func() { dedented(code) }); n > 2*uint64(len(code)) {
		t.Errorf("%d bytes for %d of code", n, len(code))
	}
}

// TestHashedRequest: characters that HTML escapes do not make what is hashed of a request larger.
func TestHashedRequest(t *testing.T) {
	req := &newSandbox{EnvVars: map[string]string{"A": strings.Repeat("<", 1<<20)}}
	if n := allocated(func() { _, _ = req.hash() }); n > 6<<20 {
		t.Errorf("%d bytes for 1 MiB", n)
	}
}
