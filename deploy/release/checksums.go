package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
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

// checksums writes the list of all digests.
func (r *release) checksums() error {
	sums, names, err := r.digests()
	if err != nil {
		return err
	}
	var list strings.Builder
	for _, name := range names {
		fmt.Fprintf(&list, "%s  %s\n", sums[name], name)
	}
	return os.WriteFile(filepath.Join(r.out, sumsName), []byte(list.String()), 0o644)
}
