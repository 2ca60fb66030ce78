package intercept

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"sync"
	"time"

	"github.com/fumehood-dev/fumehood/sandbox"
)

const (
	authorityLife = 5 * 365 * 24 * time.Hour
	leafLife      = 90 * 24 * time.Hour // clients refuse more than 398 days
	skew          = time.Hour           // that clocks may differ
	maxLeaves     = 256                 // that are kept
)

// NewAuthority makes the certificate authority of one sandbox.
func NewAuthority() (*sandbox.Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template, err := template("Fumehood: the gate of one sandbox", authorityLife)
	if err != nil {
		return nil, err
	}
	template.IsCA, template.BasicConstraintsValid, template.MaxPathLenZero = true, true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	return &sandbox.Authority{Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		Key: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})}, err
}

func template(name string, life time.Duration) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	now := time.Now()
	return &x509.Certificate{SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: now.Add(-skew), NotAfter: now.Add(life)}, err
}

// Signer signs certificates for names with an authority.
type Signer struct {
	authority tls.Certificate
	key       *ecdsa.PrivateKey // of all leaves

	mu     sync.Mutex
	leaves map[string]*tls.Certificate
}

// NewSigner makes a signer. It fails if the certificate is not that of an authority.
func NewSigner(a *sandbox.Authority) (*Signer, error) {
	authority, err := tls.X509KeyPair(a.Certificate, a.Key)
	if err != nil {
		return nil, err
	}
	if authority.Leaf == nil || !authority.Leaf.IsCA {
		return nil, errors.New("the certificate is not that of an authority")
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	return &Signer{authority: authority, key: key, leaves: map[string]*tls.Certificate{}}, err
}

// Certificate returns the certificate for a canonical name.
func (s *Signer) Certificate(name string) (*tls.Certificate, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.leaves[name]; c != nil && time.Until(c.Leaf.NotAfter) > leafLife/2 {
		return c, nil
	}
	template, err := template("", leafLife)
	if err != nil {
		return nil, err
	}
	template.DNSNames = []string{name}
	template.KeyUsage, template.ExtKeyUsage = x509.KeyUsageDigitalSignature,
		[]x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	der, err := x509.CreateCertificate(rand.Reader, template, s.authority.Leaf, s.key.Public(), s.authority.PrivateKey)
	if err != nil {
		return nil, err
	}
	c := &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: s.key}
	if c.Leaf, err = x509.ParseCertificate(der); err != nil {
		return nil, err
	}
	if len(s.leaves) >= maxLeaves {
		clear(s.leaves)
	}
	s.leaves[name] = c
	return c, nil
}
