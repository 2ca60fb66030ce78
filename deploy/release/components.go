package main

import (
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
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

// component is a module that a program links.
type component struct {
	path, version string
	sum           string // of go.sum; "" for the standard library
}

const standardLibrary = "std"

// components returns the modules of a program and of the programs in it, as the linker recorded them (go version -m).
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
	var all []component
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
			all = append(all, component{m.Path, m.Version, m.Sum})
		}
	}
	slices.SortFunc(all, func(a, b component) int {
		return strings.Compare(a.path+"@"+a.version, b.path+"@"+b.version)
	})
	return slices.Compact(all), nil
}

func (c component) url() string { return "pkg:golang/" + c.path + "@" + c.version }

// billOfMaterials writes the components as a CycloneDX document (ECMA-424).
func (r *release) billOfMaterials(w io.Writer, components []component) error {
	self := cyclonedx.Component{BOMRef: "fumehood", Type: cyclonedx.ComponentTypeApplication, Name: "fumehood",
		Version: r.version, Licenses: &cyclonedx.Licenses{{License: &cyclonedx.License{ID: "Apache-2.0"}}}}
	var libraries []cyclonedx.Component
	var refs []string
	for _, c := range components {
		library := cyclonedx.Component{BOMRef: c.url(), Type: cyclonedx.ComponentTypeLibrary, Name: c.path,
			Version: c.version, PackageURL: c.url()}
		// SHA-256 of the list of files: golang.org/x/mod/sumdb/dirhash
		if encoded, ok := strings.CutPrefix(c.sum, "h1:"); ok {
			sum, err := base64.StdEncoding.DecodeString(encoded)
			if err != nil {
				return fmt.Errorf("%s: %w", c.path, err)
			}
			library.Hashes = &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: hex.EncodeToString(sum)}}
		}
		libraries = append(libraries, library)
		refs = append(refs, library.BOMRef)
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
