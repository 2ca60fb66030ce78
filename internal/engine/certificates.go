package engine

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fumehood-dev/fumehood/internal/plan"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// maxBundle bounds the certificates of a root, which may be hostile. Those of browsers are 200 KiB.
const maxBundle = 4 << 20

// bundles are the files in which systems keep the certificates that programs trust; the first is also where Debian's,
// Ubuntu's, Alpine's and Arch's programs look.
var bundles = []string{"etc/ssl/certs/ca-certificates.crt", "etc/pki/tls/certs/ca-bundle.crt", suseBundle,
	"etc/ssl/cert.pem"}

// suseBundle is a link into /var.
const suseBundle = "etc/ssl/ca-bundle.pem"

// trustVariables name the file of trusted certificates for programs that have their own. Others read the root's.
var trustVariables = []string{"SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS",
	"GIT_SSL_CAINFO", "AWS_CA_BUNDLE", "DENO_CERT", "CARGO_HTTP_CAINFO", "PERL_LWP_SSL_CA_FILE",
	"GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"}

// trustingRun adds to the environment of a run in a sandbox with a network, under all other variables, those that make
// every program trust the certificates that the root trusts: an administrator may have added an authority. Whether an
// image has a file of them is unknown.
func (s *Sandbox) trustingRun(p *plan.Run) *plan.Run {
	spec, file := s.spec(), ""
	switch {
	case !spec.Network.Linked():
	case spec.Network.Authority != nil:
		file = sandbox.TrustPath
	case spec.Root.Dir != "" || spec.Root.Image == "" && sandbox.HasFeature(s.backend, sandbox.FeatureHostRoot):
		file = bundleOf(cmp.Or(spec.Root.Dir, "/"))
	}
	if file == "" {
		return p
	}
	env := make([]string, len(trustVariables))
	for i, name := range trustVariables {
		env[i] = name + "=" + file
	}
	trusts := *p
	trusts.Env = plan.MergeEnv(env, p.Env)
	return &trusts
}

// bundleOf returns the path in a root of the certificates that it trusts, or "", also if sandboxes do not show it.
func bundleOf(dir string) string {
	bundle, err := openBundle(dir)
	if err != nil || bundle.File == nil {
		return ""
	}
	bundle.Close()
	if bundle.name == suseBundle {
		return ""
	}
	return "/" + bundle.name
}

// trusting returns the spec of a box whose programs trust the authority of its network, too. The file behind it must
// exist until the box does; gone removes it, as what was mounted stays.
func trusting(spec sandbox.Spec) (_ sandbox.Spec, gone func(), err error) {
	a := spec.Network.Authority
	if a == nil {
		return spec, func() {}, nil
	}
	dir := spec.Root.Dir
	if dir == "" {
		// an image's own certificates cannot be read before it is there; those of this host verify the same names
		dir = "/"
	}
	bundle, usual, err := readBundle(dir)
	if err != nil {
		return spec, nil, fmt.Errorf("read the certificates that the root trusts: %w", err)
	}
	f, err := os.CreateTemp("", "fumehood-certificates-")
	if err != nil {
		return spec, nil, err
	}
	path, err := filepath.EvalSymlinks(f.Name())
	_, written := f.Write(append(append(bundle, '\n'), a.Certificate...))
	if err = errors.Join(err, written, f.Chmod(0o644), f.Close()); err != nil {
		return spec, nil, errors.Join(err, os.Remove(f.Name()))
	}
	mounts := []sandbox.Mount{{Source: path, Target: sandbox.TrustPath}}
	if (usual || spec.Root.Image != "") && !spec.Root.Writable {
		mounts = append(mounts, sandbox.Mount{Source: path, Target: "/" + bundles[0]})
	}
	for _, m := range mounts {
		if !slices.ContainsFunc(spec.Mounts,
			func(o sandbox.Mount) bool { return o.Target == m.Target || strings.HasPrefix(m.Target, o.Target+"/") }) {
			spec.Mounts = append(slices.Clone(spec.Mounts), m)
		}
	}
	return spec, func() { _ = os.Remove(path) }, nil
}

// readBundle reads the certificates that a root trusts, and reports whether the first of bundles is a regular file
// there. A root without a bundle trusts nobody.
func readBundle(dir string) (content []byte, usual bool, err error) {
	bundle, err := openBundle(dir)
	if err != nil || bundle.File == nil {
		return nil, false, err
	}
	defer bundle.Close()
	content, err = io.ReadAll(io.LimitReader(bundle, maxBundle+1))
	if err == nil && len(content) > maxBundle {
		err = fmt.Errorf("/%s is larger than %s", bundle.name, sandbox.FormatBytes(maxBundle))
	}
	return content, bundle.usual, err
}

// openedBundle is a file of trusted certificates.
type openedBundle struct {
	*os.File        // nil: the root has none
	name     string // one of bundles
	usual    bool   // it is the first of bundles, and no link
}

func openBundle(dir string) (openedBundle, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return openedBundle{}, err
	}
	defer root.Close()
	for i, name := range bundles {
		at, err := root.Lstat(name)
		usual := err == nil && i == 0 && at.Mode().IsRegular()
		open, stat := root.Open, root.Stat
		if dir == "/" { // links in it are the host's own, and may be absolute
			open, stat = func(name string) (*os.File, error) { return os.Open("/" + name) },
				func(name string) (fs.FileInfo, error) { return os.Stat("/" + name) }
		}
		if at, err = stat(name); err != nil || !at.Mode().IsRegular() {
			continue
		}
		f, err := open(name)
		return openedBundle{f, name, usual}, err
	}
	return openedBundle{}, nil
}
