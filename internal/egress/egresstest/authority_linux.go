package egresstest

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"time"
)

// bundle is where Debian's programs, and Go, look for the authorities that they trust.
const bundle = "/etc/ssl/certs/ca-certificates.crt"

// authority signs the certificates of the internet.
type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	file []byte // PEM
}

// trust lets this host trust the internet's authority.
func (w *World) trust() {
	w.t.Helper()
	a := &w.authority
	var err error
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		w.t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "The internet of a test"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	if err != nil {
		w.t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		w.t.Fatal(err)
	}
	a.file = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	others, err := os.ReadFile(bundle)
	if err != nil {
		w.t.Fatal(err)
	}
	w.cover(bundle, bytes.Join([][]byte{others, a.file}, []byte("\n")))
}

func (a *authority) certificate(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{SerialNumber: serial, DNSNames: []string{h.ServerName}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, a.key.Public(), a.key)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: a.key}, err
}

// Authority is the certificate of the internet's authority, in PEM, for programs that do not look where the host does.
func (w *World) Authority() []byte { return w.authority.file }
