package engine

import (
	"bytes"
	"io"
	"runtime"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/largejson"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestWriteRequest: a request in a file is what an ordinary encoder makes of it, and writing it takes little memory.
func TestWriteRequest(t *testing.T) {
	large := bytes.Repeat([]byte("0123456789abcdef"), 512<<10)
	r := RunRequest{ID: "id", Background: true, Request: sandbox.Request{Code: large[1:], Stdin: large[:70_001],
		Files: []sandbox.File{{Path: "a", Data: large[2:]}, {Path: "b", Data: []byte("short")},
			{Path: "c", Data: large[:70_002]}}, Command: []string{"x"}, Env: []string{"A=b"}}}
	var got, want bytes.Buffer
	largejson.Encode(&want, &r)
	if err := writeRequest(&got, r); err != nil || !bytes.Equal(got.Bytes(), want.Bytes()) {
		t.Errorf("%v, %d bytes differ from %d", err, got.Len(), want.Len())
	}
	if &r.Request.Files[0].Data[0] != &large[2] {
		t.Error("the request has changed")
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := writeRequest(io.Discard, r)
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; err != nil || took > 1<<20 {
		t.Errorf("%v, it took %d bytes for a request of %d", err, took, 2*len(large))
	}
}
