// Command release makes the files of a release from built programs: archives, packages, an image, a list of components,
// the provenance, checksums, and their signature. All of it depends only on its arguments, so that two runs are equal.
// `make release` calls it in the folder deploy.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
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
}

func main() {
	var r release
	var epoch int64
	var targets string
	flag.StringVar(&r.version, "version", "", "`VERSION`, from git describe")
	flag.StringVar(&r.commit, "commit", "", "`COMMIT` of the source")
	flag.Int64Var(&epoch, "epoch", 0, "`SECONDS` since 1970 of the commit")
	flag.StringVar(&r.source, "source", "..", "`DIR` of the repository")
	flag.StringVar(&r.programs, "programs", "", "`DIR` of the programs")
	flag.StringVar(&r.pages, "pages", "", "`DIR` of the manual pages")
	flag.StringVar(&r.clients, "clients", "", "`DIR` of the clients' packages")
	flag.StringVar(&r.out, "out", "", "`DIR` for the release")
	flag.StringVar(&targets, "targets", "", "OS/ARCH of the programs, separated by blanks")
	flag.Parse()
	r.time = time.Unix(epoch, 0).UTC()
	if err := r.make(strings.Fields(targets)); err != nil {
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
	return r.checksums()
}

// target makes the files for one system and processor.
func (r *release) target(system, processor string) error {
	tree, err := r.tree(system, processor)
	if err != nil {
		return err
	}
	if err := r.archive(tree, system); err != nil {
		return err
	}
	if system != "linux" {
		return nil
	}
	return r.packages(tree, processor)
}

// program returns the path of a built program.
func (r *release) program(system, processor string) string {
	name := "fumehood"
	if system == "windows" {
		name += ".exe"
	}
	return filepath.Join(r.programs, system+"-"+processor, name)
}
