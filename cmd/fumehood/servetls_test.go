package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// makeCerts runs fumehood certs create, and returns its exit code and its messages.
func makeCerts(t *testing.T, domain, dir string) (int, string) {
	t.Helper()
	var errs bytes.Buffer
	m := testApp(t).Main
	m.Stderr = &errs
	return m.Run(t.Context(), []string{"certs", "create", domain, "--dir", dir}), errs.String()
}

// secureClient trusts one authority, and finds all names at one address.
func secureClient(t *testing.T, authority, address string) *http.Client {
	t.Helper()
	text, err := os.ReadFile(authority)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true}
	t.Cleanup(transport.CloseIdleConnections)
	client := &http.Client{Transport: rewritten{transport, address}}
	return client
}

// rewritten sends each request to one address, with the Host header and the TLS name of its URL.
type rewritten struct {
	*http.Transport
	address string
}

func (r rewritten) RoundTrip(req *http.Request) (*http.Response, error) {
	secure := r.Transport.Clone()
	secure.TLSClientConfig.ServerName = req.URL.Hostname()
	out := req.Clone(req.Context())
	out.Host, out.URL.Host = req.URL.Host, r.address
	return secure.RoundTrip(out)
}

// TestServeTLS: a client that trusts the private authority reaches the server by its domain, and by no other name.
func TestServeTLS(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "certs")
	if code, errs := makeCerts(t, "Sandbox.test", dir); code != 0 {
		t.Fatal(errs)
	}
	if code, errs := makeCerts(t, "sandbox.test", dir); code != 0 { // a new certificate of the same authority
		t.Fatal(errs)
	}
	if code, errs := makeCerts(t, "other.test", dir); code != exitFailure || !strings.Contains(errs, "another domain") {
		t.Errorf("%d %s", code, errs)
	}
	cert, key := filepath.Join(dir, certFile), filepath.Join(dir, certKeyFile)
	s := startServer(t, "--domain", "sandbox.test", "--tls-cert", cert, "--tls-key", key)
	address := strings.TrimPrefix(s.url, "https://")
	client := secureClient(t, filepath.Join(dir, authorityFile), address)
	for host, status := range map[string]int{
		"api.sandbox.test": 200, // the control plane
		"8000-" + string(sandbox.NewID()) + ".sandbox.test":  502, // no such sandbox
		"8000-" + string(sandbox.NewID()) + ".sandbox.test.": 502, // the same name in full (RFC 1034)

		"x.sandbox.test":       400,
		"sandbox.sandbox.test": 400, // it needs the headers
	} {
		answer, err := client.Get("https://" + host + "/healthz")
		if err != nil {
			t.Error(host, err)
			continue
		}
		text, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		if answer.StatusCode != status {
			t.Errorf("%s: %d %s, not %d", host, answer.StatusCode, text, status)
		}
	}
	if _, err := client.Get("https://a.b.sandbox.test/healthz"); err == nil {
		t.Error("the certificate is valid for other names")
	}
	costly := &tls.Config{InsecureSkipVerify: true, CurvePreferences: []tls.CurveID{tls.CurveP521}}
	if conn, err := tls.Dial("tcp", address, costly); err == nil {
		conn.Close()
		t.Error("anybody can make it compute with P-521")
	}
	if answer, err := http.Get("http://" + address + "/healthz"); err == nil {
		answer.Body.Close()
		if answer.StatusCode == http.StatusOK {
			t.Error("it answers without TLS")
		}
	}
}

// TestCertificateRenewed: a server uses a renewed certificate, and keeps the old one while the new one is damaged.
func TestCertificateRenewed(t *testing.T) {
	dir := t.TempDir()
	if code, errs := makeCerts(t, "sandbox.test", dir); code != 0 {
		t.Fatal(errs)
	}
	warned := 0
	c := &certificate{cert: filepath.Join(dir, certFile), key: filepath.Join(dir, certKeyFile),
		warn: func(error) { warned++ }}
	if err := c.load(); err != nil {
		t.Fatal(err)
	}
	first, later := c.loaded, time.Now()
	look := func(wanted bool) {
		t.Helper()
		c.checked = time.Time{}
		now, err := c.current(nil)
		if err != nil || (now != first) != wanted {
			t.Errorf("renewed: %v, %v", now != first, err)
		}
	}
	touch := func(wanted bool) {
		t.Helper()
		later = later.Add(time.Hour)
		if err := os.Chtimes(c.cert, later, later); err != nil {
			t.Fatal(err)
		}
		look(wanted)
	}
	if err := os.WriteFile(c.cert, []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	touch(false)
	look(false)
	if warned != 1 {
		t.Errorf("%d warnings", warned)
	}
	if code, errs := makeCerts(t, "sandbox.test", dir); code != 0 {
		t.Fatal(errs)
	}
	rename := func(from, to string) {
		t.Helper()
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	rename(c.key, c.key+".new")
	touch(false)
	rename(c.key+".new", c.key) // without a further change of the certificate
	look(true)
}
