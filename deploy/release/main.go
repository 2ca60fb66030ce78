// Command release makes the files of a release from built programs: archives, packages, an image, a list of components,
// the provenance, checksums, and their signature. All of it depends only on its arguments, so that two runs are equal.
// `make release` calls it in the folder deploy.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"aead.dev/minisign"
)

// release is one release, and its places. All paths are absolute.
type release struct {
	version  string    // of git describe
	commit   string    // of the source
	time     time.Time // of the commit; every file has it
	source   string    // the repository
	programs string    // has OS-ARCH/fumehood, for each target
	pages    string    // the manual pages and completions
	clients  string    // the packages of the clients; "" for none
	out      string    // the files of the release
	stage    string    // temporary files

	url     string               // of the release's files, for install.sh and Homebrew
	base    string               // a tar of a root file system for the image; "" for none
	goroot  string               // of the Go that built the programs
	modules string               // Go's module cache
	key     *minisign.PrivateKey // signs the digests; nil does not
}

func main() {
	var r release
	var epoch int64
	var targets, key string
	flag.StringVar(&r.version, "version", "", "`VERSION`, from git describe")
	flag.StringVar(&r.commit, "commit", "", "`COMMIT` of the source")
	flag.Int64Var(&epoch, "epoch", 0, "`SECONDS` since 1970 of the commit")
	flag.StringVar(&r.source, "source", "..", "`DIR` of the repository")
	flag.StringVar(&r.programs, "programs", "", "`DIR` of the programs")
	flag.StringVar(&r.pages, "pages", "", "`DIR` of the manual pages")
	flag.StringVar(&r.clients, "clients", "", "`DIR` of the clients' packages")
	flag.StringVar(&r.out, "out", "", "`DIR` for the release")
	flag.StringVar(&r.url, "url", "", "`URL` of the folder with the files of the release")
	flag.StringVar(&r.base, "base", "", "`TAR` of a root file system for the image")
	flag.StringVar(&r.goroot, "goroot", "", "`DIR` of Go")
	flag.StringVar(&r.modules, "modules", "", "`DIR` of Go's module cache")
	flag.StringVar(&key, "key", "", "minisign key `FILE`, which signs the digests")
	flag.StringVar(&targets, "targets", "", "OS/ARCH of the programs, separated by blanks")
	only := flag.Bool("print-version", false, "print the version as packages have it, and make nothing")
	flag.Parse()
	if *only {
		fmt.Println(packageVersion(r.version))
		return
	}
	r.time = time.Unix(epoch, 0).UTC()
	err := r.openKey(key)
	if err == nil {
		err = r.make(strings.Fields(targets))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// make replaces the files of the release.
func (r *release) make(targets []string) (err error) {
	if err := os.RemoveAll(r.out); err != nil {
		return err
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	if r.stage, err = os.MkdirTemp("", "fumehood-release-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(r.stage)) }()
	for _, target := range targets {
		system, processor, _ := strings.Cut(target, "/")
		if err := r.target(system, processor); err != nil {
			return fmt.Errorf("%s: %w", target, err)
		}
	}
	if err := r.addClients(); err != nil {
		return err
	}
	if err := r.scripts(); err != nil {
		return err
	}
	if err := r.provenance(targets); err != nil {
		return err
	}
	return r.checksums()
}

// addClients adds the packages of the clients.
func (r *release) addClients() error {
	if r.clients == "" {
		return nil
	}
	entries, err := os.ReadDir(r.clients)
	for _, e := range entries {
		err = errors.Join(err, r.copy(filepath.Join(r.clients, e.Name()), filepath.Join(r.out, e.Name()), 0o644))
	}
	return err
}

// target makes the files for one system and processor.
func (r *release) target(system, processor string) error {
	parts, err := r.components(system, processor)
	if err != nil {
		return err
	}
	name := "fumehood-" + r.version + "-" + system + "-" + processor
	bom := filepath.Join(r.out, name+".cdx.json")
	if err := r.written(bom, func(w io.Writer) error { return r.billOfMaterials(w, parts) }); err != nil {
		return err
	}
	tree := filepath.Join(r.stage, name)
	if err := r.tree(tree, r.program(system, processor), parts); err != nil {
		return err
	}
	if err := r.archive(tree, system); err != nil {
		return err
	}
	if system != "linux" {
		return nil
	}
	return errors.Join(r.packages(tree, processor), r.image(processor))
}

// program returns the path of a built program.
func (r *release) program(system, processor string) string {
	name := "fumehood"
	if system == "windows" {
		name += ".exe"
	}
	return filepath.Join(r.programs, system+"-"+processor, name)
}
