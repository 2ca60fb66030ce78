package main

import (
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
	"golang.org/x/mod/module"
)

// component is a Go module that a program links, or a package from npm in the scripts of the dashboard.
type component struct {
	path, version string
	sum           string // of go.sum or of package-lock.json; "" for the standard library
	npm           bool
}

const standardLibrary = "std"

// components returns the modules of a program and of the programs in it, as the linker recorded them (go version -m),
// and the packages of the dashboard.
func (r *release) components(system, processor string) ([]component, error) {
	programs := []string{r.program(system, processor)}
	inside := []string{"guest", "typescript"}
	if system == "linux" {
		inside = append(inside, "runsc")
	}
	for _, name := range inside {
		programs = append(programs, filepath.Join(r.source, "internal/libexec/bin",
			"fumehood-"+name+"-linux-"+processor))
	}
	all, err := r.bundled()
	if err != nil {
		return nil, err
	}
	for _, program := range programs {
		info, err := buildinfo.ReadFile(program)
		if err != nil {
			return nil, err
		}
		all = append(all, component{path: standardLibrary, version: strings.TrimPrefix(info.GoVersion, "go")})
		for _, m := range info.Deps {
			if m.Replace != nil {
				m = m.Replace
			}
			all = append(all, component{path: m.Path, version: m.Version, sum: m.Sum})
		}
	}
	slices.SortFunc(all, func(a, b component) int {
		return strings.Compare(a.path+"@"+a.version, b.path+"@"+b.version)
	})
	return slices.Compact(all), nil
}

// bundled returns the packages from npm that the scripts of the dashboard contain: all of its lock file (version 3)
// that are not only for development.
func (r *release) bundled() (list []component, err error) {
	text, err := os.ReadFile(filepath.Join(r.source, "dashboard/package-lock.json"))
	if err != nil {
		return nil, err
	}
	var lock struct {
		Packages map[string]struct {
			Version, Integrity string
			Dev                bool
		}
	}
	if err := json.Unmarshal(text, &lock); err != nil {
		return nil, err
	}
	for folder, p := range lock.Packages {
		if name, ok := strings.CutPrefix(folder, "node_modules/"); ok && !p.Dev {
			list = append(list, component{path: name, version: p.Version, sum: p.Integrity, npm: true})
		}
	}
	return list, nil
}

// url returns the package URL (ECMA-427).
func (c component) url() string {
	if c.npm {
		return "pkg:npm/" + strings.Replace(c.path, "@", "%40", 1) + "@" + c.version
	}
	return "pkg:golang/" + c.path + "@" + c.version
}

// hashes returns the digest of the component's files. That of a Go module is of their list
// (golang.org/x/mod/sumdb/dirhash), that of a package from npm is of its archive.
func (c component) hashes() (*[]cyclonedx.Hash, error) {
	for prefix, algorithm := range map[string]cyclonedx.HashAlgorithm{
		"h1:": cyclonedx.HashAlgoSHA256, "sha512-": cyclonedx.HashAlgoSHA512} {
		if encoded, ok := strings.CutPrefix(c.sum, prefix); ok {
			sum, err := base64.StdEncoding.DecodeString(encoded)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c.path, err)
			}
			return &[]cyclonedx.Hash{{Algorithm: algorithm, Value: hex.EncodeToString(sum)}}, nil
		}
	}
	return nil, nil
}

// billOfMaterials writes the components as a CycloneDX document (ECMA-424).
func (r *release) billOfMaterials(w io.Writer, components []component) error {
	self := cyclonedx.Component{BOMRef: "fumehood", Type: cyclonedx.ComponentTypeApplication, Name: "fumehood",
		Version: r.version, Licenses: &cyclonedx.Licenses{{License: &cyclonedx.License{ID: "Apache-2.0"}}}}
	var libraries []cyclonedx.Component
	var refs []string
	for _, c := range components {
		hashes, err := c.hashes()
		if err != nil {
			return err
		}
		libraries = append(libraries, cyclonedx.Component{BOMRef: c.url(), Type: cyclonedx.ComponentTypeLibrary,
			Name: c.path, Version: c.version, PackageURL: c.url(), Hashes: hashes})
		refs = append(refs, c.url())
	}
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{Timestamp: r.time.Format(time.RFC3339), Component: &self}
	bom.Components = &libraries
	bom.Dependencies = &[]cyclonedx.Dependency{{Ref: self.BOMRef, Dependencies: &refs}}
	return cyclonedx.NewBOMEncoder(w, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(bom)
}

var licenseName = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)([.-].*)?$`)

// licenses writes the licenses of the components, which binary distributions must include.
func (r *release) licenses(components []component) (string, error) {
	var text strings.Builder
	for _, c := range components {
		if c.npm {
			continue // licenses.txt has it
		}
		dir := r.goroot
		if c.path != standardLibrary {
			path, err := module.EscapePath(c.path)
			if err != nil {
				return "", err
			}
			version, err := module.EscapeVersion(c.version)
			if err != nil {
				return "", err
			}
			dir = filepath.Join(r.modules, filepath.FromSlash(path)+"@"+version)
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			return "", err
		}
		found := slices.DeleteFunc(entries, func(e fs.DirEntry) bool {
			return e.IsDir() || !licenseName.MatchString(e.Name())
		})
		if len(found) == 0 {
			return "", fmt.Errorf("%s has no license file", dir)
		}
		for _, e := range found {
			content, err := os.ReadFile(filepath.Join(dir, e.Name()))
			if err != nil {
				return "", err
			}
			fmt.Fprintf(&text, "==== %s %s: %s\n\n%s\n", c.path, c.version, e.Name(), content)
		}
	}
	pages, err := os.ReadFile(filepath.Join(r.source, "internal/dashboard/dist/licenses.txt")) // of libraries from npm
	text.Write(pages)
	return text.String(), err
}
