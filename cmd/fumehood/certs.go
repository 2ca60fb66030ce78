package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/fumehood-dev/fumehood/internal/cli/hostfiles"
	"github.com/fumehood-dev/fumehood/internal/cli/settings"
	"github.com/fumehood-dev/fumehood/internal/cli/terminal"
)

// Files of a private authority and its certificate.
const (
	authorityFile    = "ca.pem"
	authorityKeyFile = "ca.key"
	certFile         = "cert.pem"
	certKeyFile      = "key.pem"
)

// Lifetimes of certificates. Clients accept at most 825 days of a private authority (Apple HT210176).
const (
	authorityLife = 10 * 365 * 24 * time.Hour
	certLife      = 820 * 24 * time.Hour
	clockSkew     = time.Hour
)

func (a *app) newCerts() *cobra.Command {
	certs := &cobra.Command{
		Use:   "certs",
		Short: "Make certificates for serve",
		Args:  knownCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	dir := "certs"
	create := &cobra.Command{
		Use:   "create DOMAIN",
		Short: "Make a private authority and a certificate for a domain and all names in it",
		Long: `Create makes a private authority that is valid for the domain only, and a certificate of it for the
domain and all names directly below it. Clients must trust the authority (ca.pem). If the folder has an
authority, create makes only a new certificate. It is valid for 820 days.`,
		Example: `  fumehood certs create sandbox.example.org --dir certs
  fumehood serve --domain sandbox.example.org --tls-cert certs/cert.pem --tls-key certs/key.pem`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 1 {
				return nil
			}
			return invalid("certs create", "needs one domain", "fumehood certs create sandbox.example.org")
		},
		RunE: func(_ *cobra.Command, args []string) error { return a.createCerts(args[0], dir) },
	}
	create.Flags().StringVar(&dir, "dir", dir, "`DIR` of the files (default "+dir+")")
	_ = create.Flags().SetAnnotation("dir", settings.NoSetting, nil)
	certs.AddCommand(create)
	return certs
}

// createCerts makes a certificate, and an authority unless the folder has one.
func (a *app) createCerts(domain, dir string) error {
	f := doorFlags{domain: domain}
	if err := f.check(); err != nil {
		return err
	}
	path, err := a.host().Resolve(dir)
	if err != nil {
		return hostfiles.Error("--dir", err)
	}
	if err := os.MkdirAll(path, 0o755); err != nil {
		return hostfiles.Error("--dir", err)
	}
	authority, key, err := a.authority(f.domain, path)
	if err == nil {
		err = a.issue(f.domain, path, authority, key)
	}
	if err != nil {
		return hostfiles.Error("--dir", err)
	}
	a.note(terminal.Plain, "%s is for clients: SSL_CERT_FILE or NODE_EXTRA_CA_CERTS",
		filepath.Join(dir, authorityFile))
	_, err = fmt.Fprintln(a.Stdout, filepath.Join(dir, certFile))
	return err
}

// authority reads the certificate authority of a folder. It makes one if the folder has no file of it.
func (a *app) authority(domain, dir string) (*x509.Certificate, crypto.Signer, error) {
	text, err := hostfiles.ReadTrusted(filepath.Join(dir, authorityFile), true)
	if errors.Is(err, fs.ErrNotExist) {
		return makeAuthority(domain, dir)
	}
	if err != nil {
		return nil, nil, err
	}
	keyText, err := hostfiles.ReadTrusted(filepath.Join(dir, authorityKeyFile), true)
	if err != nil {
		return nil, nil, err
	}
	block, _ := pem.Decode(text)
	keyBlock, _ := pem.Decode(keyText)
	if block == nil || keyBlock == nil {
		return nil, nil, errors.New(authorityFile + " or " + authorityKeyFile + " is damaged; remove both")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, nil, err
	}
	key, err := x509.ParseECPrivateKey(keyBlock.Bytes)
	if err != nil {
		return nil, nil, err
	}
	if !slices.Equal(cert.PermittedDNSDomains, []string{domain}) || !key.PublicKey.Equal(cert.PublicKey) {
		return nil, nil, invalid(authorityFile, "is the authority of another domain", "use another --dir")
	}
	return cert, key, nil
}

func makeAuthority(domain, dir string) (*x509.Certificate, crypto.Signer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{Subject: pkix.Name{CommonName: "Fumehood authority of " + domain},
		NotBefore: time.Now().Add(-clockSkew), NotAfter: time.Now().Add(authorityLife), IsCA: true,
		BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
		PermittedDNSDomainsCritical: true, PermittedDNSDomains: []string{domain}}
	cert, err := write(dir, template, template, key, key)
	return cert, key, err
}

// issue makes the certificate.
func (a *app) issue(domain, dir string, authority *x509.Certificate, signer crypto.Signer) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{Subject: pkix.Name{CommonName: domain}, DNSNames: []string{domain, "*." + domain},
		NotBefore: time.Now().Add(-clockSkew), NotAfter: time.Now().Add(certLife), BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	_, err = write(dir, template, authority, key, signer)
	return err
}

// write signs a certificate for a key, and writes both: an authority, or a certificate and its authority.
func write(dir string, template, parent *x509.Certificate, key *ecdsa.PrivateKey,
	signer crypto.Signer) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	raw, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return nil, err
	}
	keyRaw, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	name, keyName := authorityFile, authorityKeyFile
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})
	if parent != template {
		name, keyName = certFile, certKeyFile
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: parent.Raw})...)
	}
	secret := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyRaw})
	if err := hostfiles.Replace(filepath.Join(dir, keyName), secret, 0o600); err != nil {
		return nil, err
	}
	if err := hostfiles.Replace(filepath.Join(dir, name), text, 0o644); err != nil {
		return nil, err
	}
	return x509.ParseCertificate(raw)
}
