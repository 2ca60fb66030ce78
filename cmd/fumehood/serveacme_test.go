package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/acme/autocert"
	"golang.org/x/net/dns/dnsmessage"
)

// pebble is an ACME server for tests, by Let's Encrypt.
const pebble = "github.com/letsencrypt/pebble/v2/cmd/pebble@v2.8.0"

// startPebble starts an ACME server that finds all names at this host, and reaches challenges at a port. It returns the
// URL of its directory, the file of its authority, and the URL of the authority of the certificates that it issues.
func startPebble(t *testing.T, challenges string) (directory, authority, roots string) {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "pebble")
	if found, err := exec.LookPath("pebble"); err == nil {
		program = found
	} else {
		install := exec.Command("go", "install", pebble)
		install.Env = append(os.Environ(), "GOBIN="+dir, "GOFLAGS=", "CGO_ENABLED=0")
		if out, err := install.CombinedOutput(); err != nil {
			t.Skipf("SKIPPED, NOT TESTED: %v\n%s", err, out)
		}
	}
	cert, key := selfSigned(t, dir)
	listen, manage := freePort(t), freePort(t)
	_, port, _ := net.SplitHostPort(challenges)
	config, err := json.Marshal(map[string]any{"pebble": map[string]any{"listenAddress": listen,
		"managementListenAddress": manage, "certificate": cert, "privateKey": key,
		"httpPort": json.Number(port), "tlsPort": 1}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "config.json")
	if err := os.WriteFile(file, config, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "-config", file, "-dnsserver", serveDNS(t))
	cmd.Env = append(os.Environ(), "PEBBLE_VA_NOSLEEP=1", "PEBBLE_WFE_NONCEREJECT=0")
	cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	})
	return "https://" + listen + "/dir", cert, "https://" + manage + "/roots/0"
}

func freePort(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// selfSigned makes the certificate of a server on 127.0.0.1.
func selfSigned(t *testing.T, dir string) (certFile, keyFile string) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true,
		BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for file, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: cert},
		keyFile: {Type: "PRIVATE KEY", Bytes: der}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certFile, keyFile
}

// serveDNS answers that every name is 127.0.0.1, and returns its address.
func serveDNS(t *testing.T) string {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	go func() { // until conn closes
		for text := make([]byte, 512); ; {
			n, from, err := conn.ReadFrom(text)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(text[:n]) != nil || len(m.Questions) == 0 {
				continue
			}
			m.Response, m.Additionals = true, nil
			if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
				m.Answers = []dnsmessage.Resource{{
					Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 60},
					Body:   &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}}}}
			}
			if answer, err := m.Pack(); err == nil {
				_, _ = conn.WriteTo(answer, from) // the client asks again
			}
		}
	}()
	return conn.LocalAddr().String()
}

// TestServeACME: the server gets a certificate from an ACME server on this host by the HTTP challenge, keeps it over a
// restart, and requests none for other names.
func TestServeACME(t *testing.T) {
	if testing.Short() {
		t.Skip("make check: it builds an ACME server")
	}
	challenges := freePort(t)
	directory, authority, roots := startPebble(t, challenges)
	pool := x509.NewCertPool()
	text, err := os.ReadFile(authority)
	if err != nil {
		t.Fatal(err)
	}
	pool.AppendCertsFromPEM(text)
	state := t.TempDir()
	if err := os.Chmod(state, 0o700); err != nil {
		t.Fatal(err)
	}
	start := func() *served {
		return startServer(t, "--acme-domain", "sandbox.example.org", "--acme-directory", directory,
			"--acme-ca", authority,
			"--acme-listen", challenges, "--host", "sandbox.example.org", "--state-dir", state)
	}
	s := start()
	s.said.wait(t, `the certificate for sandbox.example.org is valid`)
	issued := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	answer, err := issued.Get(roots)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	file := filepath.Join(t.TempDir(), "roots.pem")
	out, err := os.Create(file)
	if err == nil {
		_, err = out.ReadFrom(answer.Body)
	}
	if err != nil {
		t.Fatal(err)
	}
	out.Close()
	serial := func(s *served) string {
		t.Helper()
		client := secureClient(t, file, strings.TrimPrefix(s.url, "https://"))
		answer, err := client.Get("https://sandbox.example.org/healthz")
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			t.Error(answer.Status)
		}
		if answer, err := client.Get("https://other.example.org/healthz"); err == nil {
			answer.Body.Close()
			t.Error("a stranger's name got a certificate")
		}
		return answer.TLS.PeerCertificates[0].SerialNumber.String()
	}
	first := serial(s)
	redirect, err := (&http.Client{CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}).Get("http://" + challenges + "/v1/run")
	if err != nil {
		t.Fatal(err)
	}
	redirect.Body.Close()
	if to := redirect.Header.Get("Location"); !strings.HasPrefix(to, "https://") {
		t.Errorf("%d to %s", redirect.StatusCode, to)
	}
	s.interrupt()
	s.exit <- <-s.exit // for its cleanup
	s = start()
	if second := serial(s); second != first {
		t.Error("the certificate was requested again")
	}
}

// instant is a listener to which somebody always connects.
type instant struct{ net.Listener }

func (instant) Accept() (net.Conn, error) { return nil, nil }

// TestChallengeRate: connections for challenges are accepted at a limited rate.
func TestChallengeRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, began := newPaced(instant{}), time.Now()
		for range challengeRate + 1 {
			if _, err := l.Accept(); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took < time.Second-time.Millisecond {
			t.Errorf("%d connections in %s", challengeRate+1, took)
		}
	})
}

// TestLongServerName: a name that no certificate can have is refused before it is encoded, which would take long.
func TestLongServerName(t *testing.T) {
	c := certifier{manager: autocert.Manager{HostPolicy: autocert.HostWhitelist("example.org")}}
	for name, refused := range map[string]bool{strings.Repeat("ä", 120) + ".org": false,
		strings.Repeat("ä", 125) + ".org": true} {
		_, err := c.certificate(&tls.ClientHelloInfo{ServerName: name})
		if got := errors.Is(err, errServerName); err == nil || got != refused {
			t.Errorf("%d bytes: %v", len(name), err)
		}
	}
}
