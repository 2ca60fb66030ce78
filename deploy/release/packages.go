package main

import (
	"io"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb"
	_ "github.com/goreleaser/nfpm/v2/rpm"
)

// described is the version of git describe: a tag, the commits since, the commit, and whether files were changed.
var described = regexp.MustCompile(`^v?(\d+\.\d+\.\d+(?:-(?:alpha|beta|rc)[\w.]*)?)(?:-(\d+)-g([0-9a-f]+))?(-dirty)?$`)

// packageVersion returns the version for packages, which must begin with a digit. A commit after a tag is newer than the
// tag. A source without a tag is older than every tag.
func packageVersion(version string) string {
	m := described.FindStringSubmatch(version)
	if m == nil {
		return "0.0.0-git." + strings.ReplaceAll(version, "-", ".")
	}
	var after []string
	if m[2] != "" {
		after = append(after, m[2], "g"+m[3])
	}
	if m[4] != "" {
		after = append(after, "dirty")
	}
	if after == nil {
		return m[1]
	}
	return m[1] + "+" + strings.Join(after, ".")
}

// packageTag is the version as a tag of images, which has no plus sign.
func packageTag(version string) string { return strings.ReplaceAll(packageVersion(version), "+", "-") }

// packages makes the deb and the rpm of a tree. nfpm.yaml describes them.
func (r *release) packages(tree, processor string) error {
	values := map[string]string{"ARCH": processor, "PACKAGE_VERSION": packageVersion(r.version), "TREE": tree}
	config, err := nfpm.ParseFileWithEnvMapping("nfpm.yaml", func(name string) string { return values[name] })
	if err != nil {
		return err
	}
	for _, format := range []string{"deb", "rpm"} {
		info, err := config.Get(format)
		if err != nil {
			return err
		}
		info = nfpm.WithDefaults(info)
		info.MTime = r.time
		for _, c := range info.Contents {
			if c.FileInfo != nil {
				c.FileInfo.MTime = r.time
			}
		}
		packager, err := nfpm.Get(format)
		if err != nil {
			return err
		}
		path := filepath.Join(r.out, packager.ConventionalFileName(info))
		if err := r.written(path, func(w io.Writer) error { return packager.Package(info, w) }); err != nil {
			return err
		}
	}
	return nil
}
