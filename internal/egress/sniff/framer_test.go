package sniff

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/egress/rules"
)

// FuzzRequests compares with the standard library: what passes, it reads as the same requests, with the same hosts and
// bodies; and in however many pieces the bytes come, the same passes.
func FuzzRequests(f *testing.F) {
	for _, s := range []string{
		"GET / HTTP/1.1\r\nHost: a.b\r\n\r\nGET /x HTTP/1.1\r\nHost: c.d\r\n\r\n",
		"POST /x HTTP/1.1\r\nHost: a.b\r\nContent-Length: 5\r\n\r\nhelloGET http://c.d/ HTTP/1.1\r\nHost: c.d\r\n\r\n",
		"PUT /x HTTP/1.1\r\nHost: a.b:80\r\nTransfer-Encoding: chunked\r\n\r\n" +
			"5;a=b\r\nhello\r\n0\r\nX: y\r\n\r\n\r\nHEAD * HTTP/1.0\r\nHost: a\r\n\r\n",
		"OPTIONS * HTTP/1.1\r\nHost: a.b\r\n\r\n",
	} {
		f.Add([]byte(s), 3)
	}
	f.Fuzz(func(t *testing.T, b []byte, step int) {
		passed, hosts := follow(b, len(b)+1)
		if step > 0 {
			if again, _ := follow(b, step); !bytes.Equal(again, passed) {
				t.Fatalf("in one piece %q passes, by %d %q", passed, step, again)
			}
		}
		r := bufio.NewReader(bytes.NewReader(bytes.TrimLeft(passed, "\r\n")))
		for _, host := range hosts {
			for { // the empty lines between requests
				if c, err := r.Peek(1); err != nil || c[0] != '\r' && c[0] != '\n' {
					break
				}
				_, _ = r.ReadByte()
			}
			q, err := http.ReadRequest(r)
			if err != nil {
				return // the library is stricter about targets and values; a body cut short ends all
			}
			if name, _, err := rules.Authority(q.Host); err == nil && name != host {
				t.Fatalf("%q asks %q, and was taken for %q", passed, name, host)
			}
			if _, err := io.Copy(io.Discard, q.Body); err != nil {
				return
			}
		}
		if rest, _ := io.ReadAll(r); bytes.Contains(rest, []byte("HTTP/1")) && len(hosts) > 0 {
			t.Fatalf("%q holds more requests than %q", passed, hosts)
		}
	})
}

// follow feeds bytes by pieces, and returns what may pass, and the hosts of the requests in it.
func follow(b []byte, step int) (passed []byte, hosts []string) {
	f := Framer{}
	f.OnHead = func(head []byte) (Body, error) {
		q, err := ParseRequest(head)
		if err != nil {
			return Body{}, err
		}
		name, _, err := rules.Authority(q.Host)
		if err != nil {
			return Body{}, err
		}
		hosts = append(hosts, name)
		return q.Body, nil
	}
	for len(b) > 0 {
		n := min(step, len(b))
		held, ok, err := f.Feed(b[:n])
		passed = append(append(passed, held...), b[:ok]...)
		if err != nil {
			return passed, hosts
		}
		b = b[n:]
	}
	return passed, hosts
}

// TestParsed: the bytes of heads and of chunks' sizes count as parsed, however they arrive; those of bodies do not.
func TestParsed(t *testing.T) {
	const head, chunks = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", "3\r\nabc\r\n0\r\n\r\n"
	for _, step := range []int{1, len(head + chunks)} {
		f := Framer{OnHead: func(h []byte) (Body, error) {
			_, body, err := ParseResponse([]byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"), "GET")
			return body, err
		}}
		for b := []byte(head + chunks); len(b) > 0; b = b[step:] {
			if _, _, err := f.Feed(b[:step]); err != nil {
				t.Fatal(err)
			}
		}
		if want := len(head+chunks) - len("abc"); f.Parsed != want {
			t.Errorf("by %d: %d bytes, not %d", step, f.Parsed, want)
		}
	}
}
