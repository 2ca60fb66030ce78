package egress

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

// newAuthority makes the certificate authority of one sandbox.
func newAuthority() (*sandbox.Authority, error) {
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
	return &x509.Certificate{SerialNumber: serial, Subject: pkix.Name{CommonName: name}, NotBefore: now.Add(-skew), NotAfter: now.Add(life)}, err
}

// authority signs certificates for the names that a gate answers for.
type authority struct {
	signer tls.Certificate
	key    *ecdsa.PrivateKey // of all leaves

	mu     sync.Mutex
	leaves map[string]*tls.Certificate
}

func openAuthority(a *sandbox.Authority) (*authority, error) {
	signer, err := tls.X509KeyPair(a.Certificate, a.Key)
	if err != nil {
		return nil, err
	}
	if signer.Leaf == nil || !signer.Leaf.IsCA {
		return nil, errors.New("the certificate is not one of an authority")
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	return &authority{signer: signer, key: key, leaves: map[string]*tls.Certificate{}}, err
}

// leaf is the certificate for a canonical name.
func (a *authority) leaf(name string) (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c := a.leaves[name]; c != nil && time.Until(c.Leaf.NotAfter) > leafLife/2 {
		return c, nil
	}
	template, err := template("", leafLife)
	if err != nil {
		return nil, err
	}
	template.DNSNames = []string{name}
	template.KeyUsage, template.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	der, err := x509.CreateCertificate(rand.Reader, template, a.signer.Leaf, a.key.Public(), a.signer.PrivateKey)
	if err != nil {
		return nil, err
	}
	made, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	if len(a.leaves) >= maxLeaves {
		clear(a.leaves)
	}
	c := &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: a.key, Leaf: made}
	a.leaves[name] = c
	return c, nil
}
