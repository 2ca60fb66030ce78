package httpapi_test

import (
	"archive/zip"
	"bytes"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/httpd"
)

// TestUnreadReport: the report on variables that were set, which the code can make large, is counted.
func TestUnreadReport(t *testing.T) {
	r, alice, _ := newTwoClients(t, httpd.Config{MaxAnswers: 1 << 20})
	if res, text := r.do("POST", "/v1/sandboxes", `{"name":"work"}`, alice); res.StatusCode != 201 {
		t.Fatal(text)
	}
	const path = "/v1/sandboxes/work/contexts/default/state"
	const document = `{"version":1,"language":"python","variables":{}}`
	if res, text := r.do("PUT", path, document, alice); res.StatusCode != http.StatusOK {
		t.Errorf("%s, %.200s", res.Status, text)
	}
	forge := python(`driver = display.__globals__
send = driver["send"]
def forged(kind, *fields, **options):
    if kind == b"state": fields = (fields[0], b"1", b'"' + b"x" * 700_000 + b'"')
    return send(kind, *fields, **options)
driver["send"] = forged`)
	if res, text := r.do("POST", "/v1/sandboxes/work/run", forge, alice); !strings.Contains(text, "succeeded") {
		t.Fatal(res.Status, text)
	}
	if res, text := r.do("PUT", path, document, alice); res.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("a large report: %s, %.200s", res.Status, text)
	}
}

// TestUnreadArchive: an archive of links with long paths holds little while its client does not read it.
func TestUnreadArchive(t *testing.T) {
	r, alice, _ := newTwoClients(t, httpd.Config{WriteTimeout: stepTimeout})
	if res, text := r.do("POST", "/v1/sandboxes", `{"name":"work"}`, alice); res.StatusCode != 201 {
		t.Fatal(text)
	}
	const links, length = 1000, 3600
	if res, text := r.do("POST", "/v1/sandboxes/work/run", python(fmt.Sprintf(`import os
os.mkdir("d"); os.chdir("d")
for _ in range(18): os.mkdir("a" * 199); os.chdir("a" * 199)
for i in range(%d): os.symlink("x", "l%%d" %% i)
with open("z", "wb") as f: f.truncate(50_000_000)`, links)), alice); !strings.Contains(text, "succeeded") {
		t.Fatal(res.Status, text)
	}
	const readers = 2
	before := heapInUse()
	for range readers {
		conn := r.dial()
		fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\nX-API-Key: %s\r\n\r\n",
			"/v1/sandboxes/work/files?path=d&archive=tar", alice["X-API-Key"])
		buf := make([]byte, 64<<10)
		for left := links * (length + 1500); left > 0; {
			n, err := conn.Read(buf)
			if left -= n; err != nil {
				t.Fatal(err)
			}
		}
	}
	if held := heapInUse() - before; held > readers*links*length/2 {
		t.Errorf("%d bytes are held for %d readers", held, readers)
	}
}

func heapInUse() int64 {
	runtime.GC()
	runtime.GC() // empties pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestZipTexts: the texts of a zip's directory, of which a decoder holds copies, are counted.
func TestZipTexts(t *testing.T) {
	var file bytes.Buffer
	z := zip.NewWriter(&file)
	for i := range 10 {
		if _, err := z.CreateHeader(&zip.FileHeader{Name: fmt.Sprint(i), Comment: strings.Repeat("x", 60_000),
			Extra: []byte("\xfe\xca\x00\x00")}); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	for room, want := range map[int64]int{int64(3 * file.Len()): http.StatusTooManyRequests,
		int64(8 * file.Len()): http.StatusOK} { // half of it for one client
		r, alice, _ := newTwoClients(t, httpd.Config{MaxBody: int64(file.Len()), MaxBodies: room})
		if res, text := r.do("POST", "/v1/sandboxes", `{"name":"work"}`, alice); res.StatusCode != 201 {
			t.Fatal(text)
		}
		res, text := r.do("PUT", "/v1/sandboxes/work/files?archive=zip", file.String(), alice)
		if res.StatusCode != want {
			t.Errorf("room for %d bytes: %s, %s", room, res.Status, text)
		}
	}
}
