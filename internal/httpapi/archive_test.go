package httpapi_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/httpd"
)

// tarOf is an archive of entries: "name" is a folder, "name -> target" a link, "name=content" a file.
func tarOf(t *testing.T, entries ...string) string {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, entry := range entries {
		h := &tar.Header{Name: entry, Typeflag: tar.TypeDir, Mode: 0o755}
		name, content, isFile := strings.Cut(entry, "=")
		if isFile {
			h.Name, h.Typeflag, h.Size, h.Mode = name, tar.TypeReg, int64(len(content)), 0o640
		} else if name, target, isLink := strings.Cut(entry, " -> "); isLink {
			h.Name, h.Typeflag, h.Linkname = name, tar.TypeSymlink, target
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, content); err != nil {
			t.Fatal(err)
		}
	}
	w.Close()
	return out.String()
}

func (r *rig) put(path, body string) (int, string) {
	r.t.Helper()
	q, err := http.NewRequestWithContext(r.t.Context(), "PUT", "http://"+r.addr+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(q)
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(text)
}

// TestArchives: a folder goes into a sandbox and comes out of it as one tar or zip.
func TestArchives(t *testing.T) {
	r := newRig(t, engine.Config{}, httpd.Config{})
	const files = "/v1/sandboxes/work/files"
	r.ok(201, "POST", "/v1/sandboxes", `{"name":"work"}`)
	large := strings.Repeat("large ", 100_000)
	sent := tarOf(t, "./", "d/", "d/a.txt=hello", "d/e/f/b.bin=\x00\xff", "é.txt=é", "link -> d/a.txt",
		"d/e/up -> ../a.txt",
		"big="+large)
	status, text := r.put(files+"/proj?archive=tar", sent)
	if made := parse[api.Unpacked](t, text); status != 200 || made.Bytes != int64(len(large)+5+2+2) {
		t.Fatalf("%d: %s", status, text)
	}
	r.ok(200, "POST", "/v1/sandboxes/work/run",
		bash("(cd proj; mkfifo pipe; ln -s /etc/passwd out; ln -s ../../x away)"))
	want := []string{"big " + fmt.Sprint(len(large)), "d/", "d/a.txt 5", "d/e/", "d/e/f/", "d/e/f/b.bin 2",
		"d/e/up -> ../a.txt",
		"link -> d/a.txt", "é.txt 2"}
	res, got := r.do("GET", files+"/proj?archive=tar", "", nil)
	var names []string
	in := tar.NewReader(strings.NewReader(got))
	for h, err := in.Next(); err != io.EOF; h, err = in.Next() {
		if err != nil {
			t.Fatal(err)
		}
		switch h.Typeflag {
		case tar.TypeDir:
			names = append(names, h.Name)
		case tar.TypeSymlink:
			names = append(names, h.Name+" -> "+h.Linkname)
		default:
			content, err := io.ReadAll(in)
			names = append(names, fmt.Sprint(h.Name, " ", len(content)))
			if err != nil || h.Name == "d/a.txt" && (string(content) != "hello" || h.Mode != 0o640) {
				t.Errorf("%q, %o, %v", content, h.Mode, err)
			}
		}
	}
	if slices.Sort(names); !slices.Equal(names, want) || res.Header.Get("Content-Type") != "application/x-tar" ||
		res.Header.Get("Content-Disposition") != "attachment; filename=proj.tar" {
		t.Errorf("%q, want %q: %v", names, want, res.Header)
	}
	_, got = r.do("GET", files+"?path=/workspace/proj&archive=zip", "", nil)
	read, err := zip.NewReader(strings.NewReader(got), int64(len(got)))
	if err != nil || len(read.File) != len(want) {
		t.Fatal(err, len(read.File))
	}
	if status, text := r.put(files+"?archive=zip&path=other", got); status != 200 {
		t.Fatal(status, text)
	}
	r.ok(200, "POST", "/v1/sandboxes/work/run", bash("rm proj/pipe proj/out proj/away"))
	if a := parse[api.Answer](t, r.ok(200, "POST", "/v1/sandboxes/work/run",
		bash("diff -r proj other && stat -c %a other/d/a.txt && readlink other/d/e/up"))); a.Text != "640\n../a.txt" {
		t.Errorf("%+v", a.Text)
	}
}

// TestBadArchives: entries outside of the folder and other kinds are refused, and so is a broken archive.
func TestBadArchives(t *testing.T) {
	r := newRig(t, engine.Config{}, httpd.Config{MaxBody: 1 << 20, MaxFile: 4 << 20})
	const files = "/v1/sandboxes/work/files"
	r.ok(201, "POST", "/v1/sandboxes", `{"name":"work"}`)
	var many bytes.Buffer
	z := zip.NewWriter(&many)
	w, _ := z.Create("../up")
	io.WriteString(w, "x")
	z.Close()
	var stored bytes.Buffer
	z = zip.NewWriter(&stored)
	w, _ = z.CreateHeader(&zip.FileHeader{Name: "a"})
	io.WriteString(w, "hello")
	z.Close()
	var bomb bytes.Buffer // its files have 5 MiB, and one name
	z = zip.NewWriter(&bomb)
	for range 5 {
		w, _ := z.Create("zeros")
		w.Write(make([]byte, 1<<20))
	}
	z.Close()
	whole := tarOf(t, "a=hello", "b=hello")
	for _, c := range []struct {
		path, body string
		status     int
	}{
		{"?archive=tar", tarOf(t, "../up=x"), 400},
		{"?archive=tar", tarOf(t, "/etc/x=x"), 400},
		{"?archive=tar", tarOf(t, "a/../../up=x"), 400},
		{"?archive=tar", tarOf(t, "l -> /tmp", "l/x=x"), 400},
		{"?archive=tar", whole[:1100], 400},
		{"?archive=tar", whole[:514], 400},
		{"?archive=tar", "no archive at all" + strings.Repeat(" ", 2000), 400},
		{"?archive=tar", tarOf(t, "big="+strings.Repeat("x", 5<<20)), 413},
		{"?archive=zip", many.String(), 400},
		{"?archive=zip", "PK", 400},
		{"?archive=zip", strings.Replace(stored.String(), "hello", "other", 1), 400},
		{"?archive=zip", bomb.String(), 413},
		{"?archive=zip", strings.Repeat("PK\x01\x02", 200_000), 413},
		{"?archive=zip", strings.Repeat("x", 2<<20), 413},
		{"?archive=rar", "", 400},
	} {
		if status, text := r.put(files+c.path, c.body); status != c.status {
			t.Errorf("%s, %.20q: %d %s, want %d", c.path, c.body, status, text, c.status)
		}
	}
	r.put(files+"/f", "x")
	r.refused("GET", files+"/f?archive=tar", "", nil, 400)
	r.refused("GET", files+"/none?archive=tar", "", nil, 404)
	eventually(t, "nothing is held", func() bool { bodies, answers := r.server.Held(); return bodies+answers == 0 })
}

// TestArchiveRoom: the heads of a tar need room, however small it is.
func TestArchiveRoom(t *testing.T) {
	const most = 24 << 20 // half of it for one client
	for room, want := range map[int64]int{most: 413, 2 * most: 200} {
		r := newRig(t, engine.Config{}, httpd.Config{MaxAnswers: room})
		r.ok(201, "POST", "/v1/sandboxes", `{"name":"work"}`)
		if status, text := r.put("/v1/sandboxes/work/files?archive=tar", tarOf(t, "a=hello")); status/100 != want/100 {
			t.Errorf("%d: %d, %s", room, status, text)
		}
	}
}

// work returns the work of all requests until now, in seconds.
func (r *rig) work() (seconds float64) {
	r.t.Helper()
	_, text, _ := strings.Cut(r.ok(200, "GET", "/metrics", ""), "\nfumehood_http_work_seconds_total ")
	if _, err := fmt.Sscan(text, &seconds); err != nil {
		r.t.Fatal(err)
	}
	return seconds
}

// TestArchiveWork: to unpack small files counts as little work: a client would wait for it.
func TestArchiveWork(t *testing.T) {
	r := newRig(t, engine.Config{}, httpd.Config{})
	r.ok(201, "POST", "/v1/sandboxes", `{"name":"work"}`)
	const files = 300
	entries := make([]string, files)
	for i := range entries {
		entries[i] = fmt.Sprintf("f%d=abc", i)
	}
	before := r.work()
	if status, text := r.put("/v1/sandboxes/work/files?archive=tar", tarOf(t, entries...)); status != http.StatusOK {
		t.Fatal(status, text)
	}
	if each := (r.work() - before) / files; each > 50e-6 {
		t.Errorf("a file is %.0f µs of work", each*1e6)
	}
}
