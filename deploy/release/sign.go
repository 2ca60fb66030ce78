package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"aead.dev/minisign"
)

const sumsName = "SHA256SUMS" // as sha256sum -c reads it

// digests returns the digests of all files of the release, and their names in order.
func (r *release) digests() (sums map[string]string, names []string, err error) {
	entries, err := os.ReadDir(r.out)
	if err != nil {
		return nil, nil, err
	}
	sums = map[string]string{}
	for _, e := range entries {
		content, err := os.Open(filepath.Join(r.out, e.Name()))
		if err != nil {
			return nil, nil, err
		}
		h := sha256.New()
		_, err = io.Copy(h, content)
		content.Close()
		if err != nil {
			return nil, nil, err
		}
		sums[e.Name()] = hex.EncodeToString(h.Sum(nil))
		names = append(names, e.Name())
	}
	return sums, names, nil
}

// checksums writes the list of all digests, and signs it if there is a key.
func (r *release) checksums() error {
	sums, names, err := r.digests()
	if err != nil {
		return err
	}
	var list strings.Builder
	for _, name := range names {
		fmt.Fprintf(&list, "%s  %s\n", sums[name], name)
	}
	path := filepath.Join(r.out, sumsName)
	if err := os.WriteFile(path, []byte(list.String()), 0o644); err != nil || r.key == nil {
		return err
	}
	comment := fmt.Sprintf("timestamp:%d\tfile:%s\tversion:%s", r.time.Unix(), sumsName, r.version)
	signature := minisign.SignWithComments(*r.key, []byte(list.String()), comment, "signature of Fumehood "+r.version)
	return os.WriteFile(path+".minisig", signature, 0o644)
}

// openKey reads the minisign key of a file, which RELEASE_KEY_PASSWORD decrypts. File "" is no key.
func (r *release) openKey(file string) error {
	if file == "" {
		return nil
	}
	key, err := minisign.PrivateKeyFromFile(os.Getenv("RELEASE_KEY_PASSWORD"), file)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	r.key = &key
	return nil
}

// publicKey returns the key that verifies the signature, in minisign's form; "" without a signature.
func (r *release) publicKey() string {
	if r.key == nil {
		return ""
	}
	return r.key.Public().(minisign.PublicKey).String()
}
