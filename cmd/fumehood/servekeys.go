package main

import (
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/fumehood-dev/fumehood/internal/cli/keyfile"
	"github.com/fumehood-dev/fumehood/internal/httpd"
)

// servedKeys are the API keys of a server, and their file.
type servedKeys struct {
	ring    *httpd.Keyring // nil without a file
	file    string
	entries []keyfile.Entry
	info    fs.FileInfo // of the file, when it was last read; nil after a failure
	problem string      // the last failure
}

// openKeys reads the file of keys. Without a file, requests need none.
func (a *app) openKeys(file string) (*servedKeys, error) {
	k := &servedKeys{file: file}
	if file == "" {
		return k, nil
	}
	if _, err := k.read(); err != nil {
		return nil, err
	}
	if len(k.entries) == 0 {
		return nil, invalid("--api-key-file", file+" contains no key", "fumehood keys create NAME --file "+file)
	}
	if keyfile.OpenToAll(file) {
		a.warn("every user of this host can read the names and limits in %s: chmod o-r %s", file, file)
	}
	k.ring = httpd.NewKeyring(keyfile.Keys(k.entries)...)
	return k, nil
}

// read reads the file, and returns what has changed.
func (k *servedKeys) read() (changes []string, err error) {
	k.info, _ = os.Stat(k.file) // before the content: a later change is seen
	entries, err := keyfile.Read("--api-key-file", k.file)
	if err != nil {
		k.info = nil // it is read again, as the failure may pass
		return nil, err
	}
	changes = keyChanges(k.entries, entries)
	k.entries = entries
	return changes, nil
}

// changed reports whether the file is another than the one that was read.
func (k *servedKeys) changed() bool {
	if k.file == "" {
		return false
	}
	info, err := os.Stat(k.file)
	if err != nil || k.info == nil {
		return (err == nil) != (k.info != nil)
	}
	return !os.SameFile(info, k.info) || !info.ModTime().Equal(k.info.ModTime()) || info.Size() != k.info.Size()
}

// keyChanges describes how keys differ from former ones: those that were added, removed, or have other options.
func keyChanges(before, after []keyfile.Entry) (changes []string) {
	label := func(e keyfile.Entry) string { return e.Name + " (" + e.ID() + ")" }
	find := func(in []keyfile.Entry, e keyfile.Entry) int {
		return slices.IndexFunc(in, func(o keyfile.Entry) bool { return o.Name == e.Name && o.Hash == e.Hash })
	}
	for _, e := range after {
		switch i := find(before, e); {
		case i < 0:
			changes = append(changes, "added "+label(e))
		case before[i].Options != e.Options:
			changes = append(changes, fmt.Sprintf("changed %s: %s", label(e), e.Options))
		}
	}
	for _, e := range before {
		if find(after, e) < 0 {
			changes = append(changes, "removed "+label(e))
		}
	}
	return changes
}

// severalNames reports whether the keys belong to more than one client. A client may have several keys of its name.
func severalNames(keys []httpd.Key) bool {
	return slices.ContainsFunc(keys, func(k httpd.Key) bool { return k.Name != keys[0].Name })
}

// warnOfKernel warns if code of several clients shares the host's kernel and the operator named no backend.
func (a *app) warnOfKernel(f *serveFlags, keys []httpd.Key, addr net.Addr) {
	named := f.config.Default != "" || len(f.config.Allowed) > 0
	if severalNames(keys) && !named && !reachable(addr) && defaultBackend == "native" {
		a.warn("several clients have keys, and native shares the host's kernel: code of one can slow the others. " +
			"--backend gvisor prevents that; --backend native accepts it")
	}
}

// checkKeysEvery is how often a server looks for a change of its keys, and for those that have expired.
const checkKeysEvery = time.Second

// inLog joins what has changed for one line of the log.
func inLog(changes []string) string {
	const most = 20
	if len(changes) > most {
		return strings.Join(changes[:most], ", ") + fmt.Sprintf(" and %d more", len(changes)-most)
	}
	return strings.Join(changes, ", ")
}
