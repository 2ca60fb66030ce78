package httpapi

import (
	"bytes"
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/internal/answer"
	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/internal/largejson"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// However output is cut into chunks, the pieces put together are its bytes; base64 is only needed for bytes that are
// not UTF-8.
func FuzzStreamIsLossless(f *testing.F) {
	f.Add([]byte("a€😀\n"), []byte{1, 1, 1})
	f.Add([]byte("\xff\xe2\x82"), []byte{2})
	f.Add([]byte("\xf0\x9f\x98"), []byte{1, 1})
	f.Add([]byte("\x80\xc0\xaf\xed\xa0\x80"), []byte{3, 1})
	f.Fuzz(func(t *testing.T, data, cuts []byte) {
		w := httptest.NewRecorder()
		s := newStream(httpd.NewResponse(w, time.Second), sandbox.NewID(), func(err error) { t.Fatal(err) })
		rest := data
		for i := 0; len(rest) > 0; i++ {
			n := len(rest)
			if i < len(cuts) {
				n = min(n, int(cuts[i])+1)
			}
			chunk := append([]byte(nil), rest[:n]...)
			s.output(sandbox.Stdout, chunk)
			for j := range chunk { // the chunk is valid during the call only
				chunk[j] = 'X'
			}
			rest = rest[n:]
		}
		sent := w.Body.Len()
		late := []byte("late\xff")
		size := s.holdRest(&sandbox.Result{Stdout: sandbox.Captured{Head: data}, Stderr: sandbox.Captured{Head: late}})
		if w.Body.Len() != sent || size < int64(len(late)) {
			t.Fatalf("%d bytes are sent before the slot is free, %d held", w.Body.Len()-sent, size)
		}
		s.done(answer.JSONOf(&api.Outcome{}))
		var got []byte
		plain := true
		stderr, stdout := "", false
		for line := range strings.SplitSeq(w.Body.String(), "\n") {
			if strings.HasPrefix(line, "event: ") {
				stdout = line == "event: stdout"
			}
			body, ok := strings.CutPrefix(line, "data: ")
			if !ok || !strings.Contains(body, `"offset"`) {
				continue
			}
			var p api.OutputPiece
			if err := json.Unmarshal([]byte(body), &p); err != nil {
				t.Fatal(err)
			}
			b := p.Base64
			if b == nil {
				b = []byte(p.Text)
			}
			var want bytes.Buffer
			largejson.Encode(&want, api.OutputPiece{TimeMS: p.TimeMS, Offset: p.Offset, Text: string(b),
				Base64: p.Base64, Dropped: 3})
			if got := appendOutput(nil, api.OutputPiece{TimeMS: p.TimeMS, Offset: p.Offset, Dropped: 3},
				b); string(got)+"\n" != want.String() {
				t.Errorf("%s, want %s", got, want.Bytes())
			}
			if !stdout {
				stderr += string(b)
				continue
			}
			if p.Base64 != nil {
				plain = false
				got = append(got, p.Base64...)
			} else {
				got = append(got, p.Text...)
			}
		}
		if !bytes.Equal(got, data) || stderr != string(late) {
			t.Fatalf("got %q and %q, want %q", got, stderr, data)
		}
		if utf8.Valid(data) && !plain {
			t.Fatalf("valid UTF-8 came as base64: %q", data)
		}
	})
}

// The client of a silent program gets the first event, and then comments now and then.
func TestSilentStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := httptest.NewRecorder()
		s := newStream(httpd.NewResponse(w, time.Second), sandbox.NewID(), func(err error) { t.Error(err) })
		sent := func() string {
			synctest.Wait()
			s.mu.Lock()
			defer s.mu.Unlock()
			return w.Body.String()
		}
		for _, c := range []struct {
			after time.Duration
			beats int
			ends  string
		}{{0, 0, ""}, {startAfter, 0, "\n\n"}, {heartbeat - time.Second, 0, "\n\n"}, {time.Second, 1, beatLine}, {heartbeat,
			2, beatLine}} {
			time.Sleep(c.after)
			text := sent()
			if strings.HasPrefix(text, "id: 1\nevent: started\n") != (c.ends != "") || strings.Count(text,
				beatLine) != c.beats || !strings.HasSuffix(text, c.ends) {
				t.Errorf("after %v more: %q", c.after, text)
			}
		}
		if !w.Flushed {
			t.Error("it is held back")
		}
		s.close()
		time.Sleep(2 * heartbeat)
		if n := strings.Count(sent(), beatLine); n != 2 {
			t.Errorf("%d comments after the end", n)
		}
	})
}

const beatLine = ": still running\n\n"

func BenchmarkDecode(b *testing.B) {
	body := []byte(`{"language":"python","code":"print(6*7)","limits":{"timeout_s":5}}`)
	b.ReportAllocs()
	for b.Loop() {
		var req api.RunRequest
		if err := decode(body, &req); err != nil {
			b.Fatal(err)
		}
		if _, err := runOf(&req); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeLarge(b *testing.B) {
	body := []byte(`{"language":"python","code":"1","files":[{"path":"a","content_base64":"` + strings.Repeat("AAAA",
		4<<20) + `"}]}`)
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		var req api.RunRequest
		if err := decode(body, &req); err != nil {
			b.Fatal(err)
		}
	}
}

// TestWholeEvent: an event with a text that JSON makes six times as long is encoded in pieces.
func TestWholeEvent(t *testing.T) {
	text := strings.Repeat("\x01", 4<<20)
	w := httptest.NewRecorder()
	w.Body.Grow(7 * len(text))
	s := &eventStream{out: httpd.NewResponse(w, time.Minute)}
	s.start(time.Minute)
	defer s.close()
	event := &api.ResultEvent{Result: api.Result{Data: map[string]string{"text/html": text}}}
	if err := s.whole(2, api.EventResult, event); err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	buffered := s.buf.Cap()
	s.mu.Unlock()
	var got api.ResultEvent
	data, ok := strings.CutPrefix(w.Body.String(), "id: 2\nevent: result\ndata: ")
	if err := json.Unmarshal([]byte(strings.TrimSuffix(data, "\n\n")), &got); err != nil || !ok ||
		got.Result.Data["text/html"] != text || !strings.HasSuffix(data, "}\n\n") {
		t.Errorf("%v, %.100q", err, w.Body.String())
	}
	if buffered > keptUnsent {
		t.Errorf("%d bytes are buffered", buffered)
	}
}
