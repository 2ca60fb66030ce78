package shared

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/test/redistest"
)

// server sends the same bytes as the answer to each command of successive connections, and passes on the commands.
func server(t *testing.T, reply string) (r redisAnswers, sent func() string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	var served sync.WaitGroup
	served.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			part := make([]byte, 4096)
			for n := 1; n > 0; {
				n, _ = c.Read(part)
				got.Write(part[:n])
				_, _ = c.Write([]byte(reply)) // the client may have gone
			}
			c.Close()
		}
	})
	stop := sync.OnceFunc(func() { l.Close(); served.Wait() })
	t.Cleanup(stop)
	return redisAnswers{address: &url.URL{Scheme: "redis", Host: l.Addr().String()}},
		func() string { stop(); return got.String() }
}

// TestHostileServer: any answer of a server is at most an error.
func TestHostileServer(t *testing.T) {
	for _, reply := range []string{"$9223372036854775807\r\n", "$2000000000\r\n", "$-2\r\n", "$+1\r\nx\r\n",
		"$11\r\n0123456789x\r\n", "$1\r\nxyz", ":1\n", "\r\n", "%1\r\n", "*-1\r\n",
		strings.Repeat("*1\r\n", 1<<20), "-" + strings.Repeat("x", 1<<20), "-ERR \x1b[2J\r\n"} {
		r, _ := server(t, reply)
		value, err := r.Get(t.Context(), "key", 10)
		if err == nil || value != nil || len(err.Error()) > 400 || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("%.20q: %.20q, %v", reply, value, err)
		}
	}
	r, _ := server(t, "")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := r.Lock(ctx, "key", "holder", time.Second); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a silent server: %v", err)
	}
}

// TestAddress: the user, the password and the database of an address are used, and no error has the password.
func TestAddress(t *testing.T) {
	for address, want := range map[string]string{"redis://h": "", "redis://h/0": "", "redis://:p%40x@h": "AUTH p@x ",
		"redis://word@h/": "AUTH word ", "redis://u:p@h/12": "AUTH u p SELECT 12 "} {
		r, sent := server(t, "+OK\r\n")
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		u.Host, r.address = r.address.Host, u
		if err := r.Put(t.Context(), "k", []byte("v"), time.Second); err != nil {
			t.Error(err)
		}
		var words []string
		for _, line := range strings.Split(sent(), "\r\n") {
			if line != "" && line[0] != '*' && line[0] != '$' {
				words = append(words, line)
			}
		}
		if got := strings.Join(words, " "); got != want+"SET "+answerPrefix+"k v PX 1000" {
			t.Errorf("%s: %q", address, got)
		}
	}
	for _, said := range []string{"'s3cret'", "'s3cre...", "S3CRET"} {
		r, _ := server(t, "-ERR unknown command 'AUTH', with args beginning with: "+said+"\r\n")
		r.address.User = url.UserPassword("", "s3cret")
		if err := r.Unlock(t.Context(), "k", "h"); err == nil || strings.Contains(strings.ToLower(err.Error()), "s3c") {
			t.Errorf("%v", err)
		}
	}
}

// TestTLS: rediss checks the server's certificate.
func TestTLS(t *testing.T) {
	real := redistest.Start(t)
	u, err := url.Parse(real.Address)
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewTLSServer(nil) // has a certificate
	defer web.Close()
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: web.TLS.Certificates})
	if err != nil {
		t.Fatal(err)
	}
	var served sync.WaitGroup
	served.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			served.Go(func() {
				defer c.Close()
				if to, err := net.Dial("tcp", u.Host); err == nil {
					served.Go(func() { _, _ = io.Copy(to, c); to.Close() })
					_, _ = io.Copy(c, to)
				}
			})
		}
	})
	defer served.Wait()
	defer l.Close()
	secure := *u
	secure.Scheme, secure.Host = "rediss", l.Addr().String()
	roots := x509.NewCertPool()
	roots.AddCert(web.Certificate())
	known := redisAnswers{&secure, &tls.Config{RootCAs: roots}}
	if err := known.Put(t.Context(), "tls", []byte("value"), time.Minute); err != nil {
		t.Error(err)
	}
	if v, err := (redisAnswers{address: u}).Get(t.Context(), "tls", 10); err != nil || string(v) != "value" {
		t.Errorf("%q, %v", v, err)
	}
	var unknown *tls.CertificateVerificationError
	if _, err := (redisAnswers{address: &secure}).Get(t.Context(), "tls", 10); !errors.As(err, &unknown) {
		t.Errorf("an unknown certificate: %v", err)
	}
}

// FuzzReply: for any input, a value has at most the requested bytes, and nothing after the reply is read.
func FuzzReply(f *testing.F) {
	for _, seed := range []string{"+OK\r\n", ":1\r\n", "-ERR x\r\n", "$-1\r\n", "$3\r\nabc\r\n",
		"$99999999999999999999\r\n", "*1\r\n*1\r\n", "$0\r\n\r\n+OK\r\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		const most = 100
		in := bufio.NewReaderSize(bytes.NewReader(data), maxLine)
		value, err := readReply(in, most)
		if err != nil {
			return
		}
		rest, _ := io.ReadAll(in)
		taken := data[:len(data)-len(rest)]
		if !bytes.HasSuffix(taken, []byte("\r\n")) || !bytes.Contains(taken, value) || data[0] == '$' &&
			len(value) > most || len(value) > maxLine {
			t.Errorf("%q is %q", taken, value)
		}
	})
}
