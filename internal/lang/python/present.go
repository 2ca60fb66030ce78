package python

import (
	"bytes"
	"encoding/csv"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// Bounds on reading the metadata in a folder of packages. Code may have written its files.
const (
	maxPresent   = 5000      // packages
	maxMetadata  = 256 << 10 // bytes of METADATA of one package; the text that follows is long
	maxDescribed = 16 << 10  // bytes of the lines of one that count
	maxRecord    = 8 << 20   // bytes of RECORD of one
)

// counts begins the lines of METADATA that decide what a package needs.
var counts = []string{"Metadata-Version:", "Name:", "Version:", "Requires-Dist:", "Requires-Python:", "Provides-Extra:"}

// presentPackages returns the METADATA of packages in a folder, without what an installer does not need. One that is
// left out is installed again.
func presentPackages(folder fs.FS, packages []sandbox.Package) (texts []string) {
	for _, dir := range distributions(folder) {
		if !slices.ContainsFunc(packages, func(p sandbox.Package) bool { return describes(dir, p) }) {
			continue
		}
		text := readStart(folder, dir+"/METADATA", maxMetadata)
		text, _, _ = bytes.Cut(text, []byte("\n\n"))
		var kept strings.Builder
		for line := range bytes.Lines(text) {
			for _, word := range counts {
				if bytes.HasPrefix(line, []byte(word)) {
					kept.Write(bytes.TrimRight(line, "\r\n"))
					kept.WriteByte('\n')
				}
			}
		}
		if kept.Len() > 0 && kept.Len() <= maxDescribed && len(texts) < maxPresent {
			texts = append(texts, strings.ToValidUTF8(kept.String(), "\ufffd"))
		}
	}
	return texts
}

// filesOf lists the files of a package, by its RECORD, and those that were compiled from them.
func filesOf(folder fs.FS, p sandbox.Package) (files []string) {
	for _, dir := range distributions(folder) {
		if !describes(dir, p) {
			continue
		}
		lines := csv.NewReader(bytes.NewReader(readStart(folder, dir+"/RECORD", maxRecord)))
		lines.FieldsPerRecord = -1
		compiled := map[string][]fs.DirEntry{} // by folder
		for {
			fields, err := lines.Read()
			if err != nil {
				break
			}
			file := path.Clean(fields[0])
			files = append(files, file)
			module, isModule := strings.CutSuffix(path.Base(file), ".py")
			cache := path.Join(path.Dir(file), "__pycache__")
			if _, known := compiled[cache]; isModule && !known && fs.ValidPath(cache) {
				compiled[cache], _ = fs.ReadDir(folder, cache)
			}
			for _, e := range compiled[cache] {
				if isModule && strings.HasPrefix(e.Name(), module+".") {
					files = append(files, path.Join(cache, e.Name()))
				}
			}
		}
		files = append(files, path.Join(dir, "RECORD"))
	}
	return files
}

// describes reports whether the name of a folder is that of a package.
func describes(dir string, p sandbox.Package) bool {
	name, version, _ := strings.Cut(strings.TrimSuffix(dir, distSuffix), "-")
	return folded.NameOf(name) == folded.NameOf(p.Name) && version == p.Version
}

var folded = sandbox.Installer{Folds: true}

const distSuffix = ".dist-info"

// distributions lists the folders that describe a package.
func distributions(folder fs.FS) (dirs []string) {
	entries, _ := fs.ReadDir(folder, ".")
	for _, e := range entries {
		if e.IsDir() && strings.HasSuffix(e.Name(), distSuffix) {
			dirs = append(dirs, e.Name())
		}
	}
	return dirs
}

// readStart returns at most a number of bytes of a file; none if it cannot be read.
func readStart(folder fs.FS, name string, most int64) []byte {
	f, err := folder.Open(name)
	if err != nil {
		return nil
	}
	defer f.Close()
	text, _ := io.ReadAll(io.LimitReader(f, most))
	return text
}
