package egresstest

import (
	"bytes"
	"crypto/tls"
	"os"

	"github.com/fumehood-dev/fumehood/internal/egress/intercept"
)

// bundle is where Debian's programs, and Go, look for the authorities that they trust.
const bundle = "/etc/ssl/certs/ca-certificates.crt"

// trust makes this host trust the internet's authority.
func (w *World) trust() {
	w.t.Helper()
	authority, err := intercept.NewAuthority()
	if err != nil {
		w.t.Fatal(err)
	}
	w.authority = authority.Certificate
	if w.signer, err = intercept.NewSigner(authority); err != nil {
		w.t.Fatal(err)
	}
	others, err := os.ReadFile(bundle)
	if err != nil {
		w.t.Fatal(err)
	}
	w.cover(bundle, bytes.Join([][]byte{others, w.authority}, []byte("\n")))
}

func (w *World) certificate(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
	return w.signer.Certificate(h.ServerName)
}

// Authority returns the certificate of the internet's authority, in PEM, for programs that do not use the bundle.
func (w *World) Authority() []byte { return w.authority }
