package e2bapi_test

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/internal/httpd"
)

// stepTimeout bounds a step that hangs. Nothing is measured against it.
const stepTimeout = time.Minute

// sh runs a script in the sandbox, and returns the stream of its process.
func (r *rig) sh(script string) string {
	r.t.Helper()
	text, err := json.Marshal(map[string]any{"process": map[string]any{"cmd": "/bin/bash",
		"args": []string{"-c", script}}})
	if err != nil {
		r.t.Fatal(err)
	}
	status, out := r.do("POST", "/process.Process/Start", "application/connect+json", framed(string(text)), r.to(envd))
	if status != http.StatusOK || !bytes.Contains(out, []byte(`"exited":true`)) {
		r.t.Fatalf("%s: %d, %.500q", script, status, out)
	}
	return string(out)
}

// execute runs code in a context and returns the lines of its stream, of which the last may be missing.
func (r *rig) execute(code, in string) string {
	r.t.Helper()
	text, _ := json.Marshal(map[string]string{"code": code, "context_id": in}) // strings always have a JSON form
	res := r.ask("POST", "/execute", "application/json", text, r.to(code49999))
	defer res.Body.Close()
	out, _ := io.ReadAll(res.Body) // it may be cut
	return string(out)
}

// TestUnreadResult: a large result that nobody reads takes the room of its client, which gets no further one meanwhile.
func TestUnreadResult(t *testing.T) {
	r := newRig(t, httpd.Config{MaxAnswers: 8 << 20, WriteTimeout: stepTimeout})
	const large = "class Large:\n  def _repr_html_(self): return 'x' * 6_000_000\nLarge()"
	text, _ := json.Marshal(map[string]string{"code": large}) // strings always have a JSON form
	held := r.ask("POST", "/execute", "application/json", text, r.to(code49999))
	r.waitHeld(4 << 20)
	r.server.SetWaits(stepTimeout, time.Millisecond)
	if out := r.execute(large, ""); strings.Contains(out, "xxx") || strings.Contains(out, "end_of_execution") {
		t.Errorf("another result was sent: %.200s", out)
	}
	held.Body.Close()
	r.waitHeld(0)
	if out := r.execute(large, ""); !strings.Contains(out, "xxx") || !strings.Contains(out, "end_of_execution") {
		t.Errorf("once there is room: %.200s", out)
	}
}

// waitHeld waits until so many bytes of answers are held.
func (r *rig) waitHeld(want int64) {
	r.t.Helper()
	for end := time.Now().Add(stepTimeout); ; time.Sleep(2 * time.Millisecond) {
		_, answers := r.server.Held()
		if answers == want {
			return
		}
		if time.Now().After(end) {
			r.t.Fatalf("%d bytes of answers are held, not %d", answers, want)
		}
	}
}

// TestListRoom: the description of a folder is counted while it is made.
func TestListRoom(t *testing.T) {
	r := newRig(t, httpd.Config{MaxAnswers: 4 << 20})
	r.sh(`mkdir few many; echo > few/a; x=$(printf '\1%.0s' {1..200}); for i in {1..800}; do echo > many/$x$i; done`)
	if status, text := r.call("/filesystem.Filesystem/ListDir", `{"path":"few"}`); status != 200 ||
		strings.Count(string(text), `"name"`) != 1 {
		t.Errorf("%d: %s", status, text)
	}
	if status, text := r.call("/filesystem.Filesystem/ListDir", `{"path":"many"}`); status == 200 ||
		!strings.Contains(string(text), "resource_exhausted") {
		t.Errorf("%d: %.300s", status, text)
	}
	r.waitHeld(0)
}

// TestNames: files whose names are not UTF-8 are listed too.
func TestNames(t *testing.T) {
	r := newRig(t, httpd.Config{})
	r.sh(`mkdir odd; cd odd; echo > $'a\xff'; ln -s $'b\xfe' c; echo > d`)
	status, text := r.call("/filesystem.Filesystem/ListDir", `{"path":"odd"}`)
	var list struct {
		Entries []struct{ Name, SymlinkTarget string }
	}
	if err := json.Unmarshal(text, &list); err != nil || status != 200 {
		t.Fatalf("%d: %s", status, text)
	}
	if got, want := fmt.Sprint(list.Entries), "[{a\ufffd } {c /workspace/odd/b\ufffd} {d }]"; got != want {
		t.Errorf("%s, not %s", got, want)
	}
}

// TestSandboxPages: the list of sandboxes is sent as it is made, with as many as the client requests.
func TestSandboxPages(t *testing.T) {
	r := newRig(t, httpd.Config{MaxAnswers: 2 << 10})
	for i := range 4 {
		metadata := map[string]string{}
		for j := range 30 {
			metadata[fmt.Sprint("n", j)] = fmt.Sprint(i, strings.Repeat("x", 1000))
		}
		body, _ := json.Marshal(map[string]any{"allow_internet_access": false, "metadata": metadata}) // so have maps
		if status, text := r.do("POST", "/sandboxes", "application/json", body, nil); status != 201 {
			t.Fatalf("%d: %s", status, text)
		}
	}
	for query, want := range map[string]string{"": "3 2 1 0", "?order=asc": "0 1 2 3"} {
		status, text := r.do("GET", "/v2/sandboxes"+query, "", nil, nil)
		var list []struct{ Metadata map[string]string }
		if err := json.Unmarshal(text, &list); err != nil || status != 200 {
			t.Fatalf("%d: %.300s", status, text)
		}
		var got []string
		for _, s := range list {
			if n, _, ok := strings.Cut(s.Metadata["n0"], "x"); ok {
				got = append(got, n)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: %v, not %s", query, got, want)
		}
	}
	res := r.ask("GET", "/v2/sandboxes?limit=2", "", nil, nil)
	res.Body.Close()
	token := res.Header.Get("X-Next-Token")
	_, text := r.do("GET", "/v2/sandboxes?limit=2&nextToken="+token, "", nil, nil)
	if res.Header.Get("X-Total-Running") != "5" || !strings.Contains(string(text), `"1xxx`) ||
		strings.Contains(string(text), `"2xxx`) {
		t.Errorf("%v: %.300s", res.Header, text)
	}
}

func zipped(content []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write(content) // to memory
	_ = w.Close()
	return out.Bytes()
}

// TestFileBounds: a body over the limit is refused, packed or as a form, and so is one that is cut.
func TestFileBounds(t *testing.T) {
	const most = 2 << 20
	r := newRig(t, httpd.Config{MaxFile: most})
	form := func(head string, sizes ...int) ([]byte, string) {
		var out bytes.Buffer
		w := multipart.NewWriter(&out)
		for i, size := range sizes {
			part, err := w.CreateFormFile("file", fmt.Sprint("f", i, head))
			if err == nil {
				_, err = part.Write(make([]byte, size))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		_ = w.Close() // to memory
		return out.Bytes(), w.FormDataContentType()
	}
	const plain = "application/octet-stream"
	fits, kind := form("", 1000, 2000)
	over, overKind := form("", 1000, most)
	head, headKind := form(strings.Repeat("x", 100<<10), 10)
	other := bytes.ReplaceAll(over[:most], []byte(`name="file"`), []byte(`name="else"`))
	for name, c := range map[string]struct {
		kind, encoding string
		body           []byte
		want           int
	}{
		"other parts":        {overKind, "gzip", zipped(other), 413},
		"plain":              {plain, "", make([]byte, most), 200},
		"plain, over":        {plain, "", make([]byte, most+1), 413},
		"gzip":               {plain, "gzip", zipped(make([]byte, most)), 200},
		"gzip, over":         {plain, "gzip", zipped(make([]byte, most+1)), 413},
		"gzip, cut":          {plain, "gzip", zipped(make([]byte, most))[:100], 400},
		"another encoding":   {plain, "br", []byte("x"), 415},
		"form":               {kind, "", fits, 200},
		"form, over":         {overKind, "", over, 413},
		"form of gzip":       {kind, "gzip", zipped(fits), 200},
		"form of gzip, over": {overKind, "gzip", zipped(over), 413},
		"form, cut":          {kind, "", fits[:1500], 400},
		"form, long head":    {headKind, "", head, 413},
	} {
		h := r.to(envd)
		if c.encoding != "" {
			h.Set("Content-Encoding", c.encoding)
		}
		path := "/files"
		if c.kind == plain {
			path += "?path=f"
		}
		if status, text := r.do("POST", path, c.kind, c.body, h); status != c.want {
			t.Errorf("%s: %d, not %d: %s", name, status, c.want, text)
		}
	}
}

// TestFormRoom: the head of a part needs room, however small the form is.
func TestFormRoom(t *testing.T) {
	const form = "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\nx\r\n--b--\r\n"
	for room, want := range map[int64]int{512 << 10: 413, 2 << 20: 200} { // half of it for one client
		r := newRig(t, httpd.Config{MaxAnswers: room})
		if status, text := r.do("POST", "/files", "multipart/form-data; boundary=b", []byte(form),
			r.to(envd)); status != want {
			t.Errorf("%d: %d, not %d: %s", room, status, want, text)
		}
	}
}

// TestErrorWords: errors of calls and of runs have the words of other faces, without the steps that failed.
func TestErrorWords(t *testing.T) {
	r := newRig(t, httpd.Config{})
	r.sh("echo > file; mkdir gone")
	status, text := r.call("/filesystem.Filesystem/MakeDir", `{"path":"file/below"}`)
	if want := `"message":"file: /workspace/file/below is not a folder, or something above it is not`; status != 400 ||
		!strings.Contains(string(text), want) || strings.Contains(string(text), "guest") {
		t.Errorf("%d: %s", status, text)
	}
	_, text = r.do("POST", "/contexts", "application/json", []byte(`{"cwd":"gone"}`), r.to(code49999))
	var made struct{ ID string }
	if err := json.Unmarshal(text, &made); err != nil {
		t.Fatalf("%s", text)
	}
	r.execute("import os, signal; os.rmdir(os.getcwd()); os.kill(os.getpid(), signal.SIGKILL)", made.ID)
	out := r.execute("1", made.ID) // its interpreter cannot start again
	if !strings.Contains(out, `is not a directory in the sandbox`) || strings.Contains(out, "guest") {
		t.Error(out)
	}
}

// TestMessageRoom: what a message may become is counted before it is decoded, for a packed one after it was unpacked.
func TestMessageRoom(t *testing.T) {
	r := newRig(t, httpd.Config{MaxAnswers: 16 << 20}) // half of it for one client
	message := func(bytes int) []byte { return []byte(`{"path":"/","x":"` + strings.Repeat("x", bytes) + `"}`) }
	const list = "/filesystem.Filesystem/ListDir"
	if status, text := r.do("POST", list, "application/json", message(100<<10), r.to(envd)); status != 200 {
		t.Errorf("%d: %.300s", status, text)
	}
	if status, text := r.do("POST", list, "application/json", message(500<<10), r.to(envd)); status != 413 {
		t.Errorf("%d: %.300s", status, text)
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write(message(500 << 10)) // to memory
	z.Close()
	header := r.to(envd)
	header.Set("Content-Encoding", "gzip")
	if status, text := r.do("POST", list, "application/json", packed.Bytes(), header); status != 413 {
		t.Errorf("packed: %d: %.300s", status, text)
	}
	words := zipped([]byte(`{"process":{"cmd":"/bin/true","args":[""` + strings.Repeat(`,""`, 100_000) + `]}}`))
	stream := append(binary.BigEndian.AppendUint32([]byte{1}, uint32(len(words))), words...)
	header = r.to(envd)
	header.Set("Connect-Content-Encoding", "gzip")
	status, text := r.do("POST", "/process.Process/Start", "application/connect+json", stream, header)
	if status != 413 {
		t.Errorf("packed in a stream: %d: %.300s", status, text)
	}
	r.waitHeld(0)
}

// TestPackedStream: the message of a stream may be packed. Others are refused, and not unpacked.
func TestPackedStream(t *testing.T) {
	r := newRig(t, httpd.Config{})
	words := zipped([]byte(`{"process":{"cmd":"/bin/echo","args":["a packed word"]}}`))
	stream := append(binary.BigEndian.AppendUint32([]byte{1}, uint32(len(words))), words...)
	header := r.to(envd)
	header.Set("Connect-Content-Encoding", "gzip")
	_, text := r.do("POST", "/process.Process/Start", "application/connect+json", stream, header)
	if !bytes.Contains(text, []byte(`"exited":true`)) {
		t.Errorf("%.500q", text)
	}
	stream = append(stream, 1, 0, 0, 0, 1, 'x')
	_, text = r.do("POST", "/process.Process/Start", "application/connect+json", stream, header)
	if bytes.Contains(text, []byte(`"exited":true`)) || bytes.Contains(text, []byte("is not gzip")) {
		t.Errorf("two messages: %.500q", text)
	}
}

// TestPlainAnswer: no answer is packed, also if the message is.
func TestPlainAnswer(t *testing.T) {
	r := newRig(t, httpd.Config{})
	header := r.to(envd)
	header.Set("Content-Encoding", "gzip")
	header.Set("Accept-Encoding", "gzip")
	message := zipped([]byte(`{"path":"/"}`))
	status, text := r.do("POST", "/filesystem.Filesystem/Stat", "application/json", message, header)
	if status != 200 || !bytes.Contains(text, []byte(`"path":"/"`)) {
		t.Errorf("%d: %.300q", status, text)
	}
}

// TestProcessRoom: the request of a process is counted until the process ends, although its client has left.
func TestProcessRoom(t *testing.T) {
	const words = 5000
	r := newRig(t, httpd.Config{MaxBodies: 64 * words})
	start := framed(`{"process":{"cmd":"/bin/sh","args":["-c","sleep 1000"` + strings.Repeat(`,""`, words) + `]}}`)
	out := r.ask("POST", "/process.Process/Start", "application/connect+json", start, r.to(envd))
	begun := make([]byte, 64)
	n, _ := io.ReadAtLeast(out.Body, begun, len(`.....{"event":{"start":{"pid":7}}}`))
	var pid int
	if _, after, _ := bytes.Cut(begun[:n], []byte(`"pid":`)); len(after) > 0 {
		_, _ = fmt.Sscan(string(after), &pid)
	}
	out.Body.Close()
	r.waitHeld(0)
	if bodies, _ := r.server.Held(); pid == 0 || bodies < 16*words {
		t.Errorf("process %d: %d bytes are held", pid, bodies)
	}
	if _, text := r.do("POST", "/process.Process/Start", "application/connect+json", start,
		r.to(envd)); !bytes.Contains(text, []byte("held in memory")) {
		t.Errorf("a second process: %.300q", text)
	}
	kill := fmt.Sprintf(`{"process":{"pid":%d},"signal":"SIGNAL_SIGKILL"}`, pid)
	if status, text := r.call("/process.Process/SendSignal", kill); status != 200 {
		t.Errorf("%d: %s", status, text)
	}
	for end := time.Now().Add(stepTimeout); ; time.Sleep(2 * time.Millisecond) {
		if bodies, _ := r.server.Held(); bodies == 0 {
			return
		} else if time.Now().After(end) {
			t.Fatalf("%d bytes are held", bodies)
		}
	}
}

// TestLongSettings: long names, numbers and rules are refused before a decoder copies them, and so is a long request
// that would be hashed.
func TestLongSettings(t *testing.T) {
	r := newRig(t, httpd.Config{})
	long := strings.Repeat("1", 2<<20)
	once := http.Header{"Idempotency-Key": {"a"}}
	most := strings.Repeat("1", 100_000)
	both := `{"envVars":{"a":"` + most + `"},"network":{"denyOut":["` + strings.Repeat(most, 10) + `"]}}`
	for body, status := range map[string]int{both: 413, `{"timeout":` + long + `}`: 413,
		`{"network":{"` + long + `":1}}`: 413, `{"network":{"rules":{"a":"` + long + `"}}}`: 400,
		`{"envVars":{"a":"` + long + `"}}`: 413} {
		got, text := r.do("POST", "/sandboxes", "application/json", []byte(body), once)
		if got != status || len(text) > 1000 {
			t.Errorf("%.30s: %d, %.300s", body, got, text)
		}
	}
}
