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
	maxTexts     = 16 << 20  // bytes of these lines of all
	maxHeads     = 32 << 20  // bytes of METADATA of all that are read, in pieces of headPiece
	headPiece    = 4 << 10
	maxRecord    = 8 << 20  // bytes of RECORD of one
	maxRecords   = 32 << 20 // bytes of RECORD of all
	maxFiles     = 400_000  // files that are listed

	entriesBatch = 256 // of a folder that are read at once
)

// counts begins the lines of METADATA that decide what a package needs.
var counts = []string{"Metadata-Version:", "Name:", "Version:", "Requires-Dist:", "Requires-Python:", "Provides-Extra:"}

// presentPackages returns the METADATA of packages in a folder, without what an installer does not need. One that is
// left out is installed again.
func presentPackages(folder fs.FS, packages []sandbox.Package) (texts []string) {
	size, left := 0, maxHeads
	for _, dir := range distributions(folder, packages) {
		if size > maxTexts-maxDescribed || left <= 0 {
			break
		}
		text, read := readHead(folder, dir+"/METADATA", min(left, maxMetadata))
		left -= read
		var kept strings.Builder
		for line := range bytes.Lines(text) {
			for _, word := range counts {
				if bytes.HasPrefix(line, []byte(word)) {
					kept.Write(bytes.TrimRight(line, "\r\n"))
					kept.WriteByte('\n')
				}
			}
		}
		if kept.Len() > 0 && kept.Len() <= maxDescribed {
			texts = append(texts, strings.ToValidUTF8(kept.String(), "\ufffd"))
			size += kept.Len()
		}
	}
	return texts
}

// modules are names of modules of Python, by the folder of the files that are compiled from them.
type modules map[string]map[string]bool

// filesOf lists the files of packages, by their RECORDs, and those that were compiled from them. It lists at most
// maxFiles, and takes time in proportion to the RECORDs and to the number of files in the folder.
func filesOf(folder fs.FS, packages []sandbox.Package) (files []string) {
	left, compiled := int64(maxRecords), modules{}
	for _, dir := range distributions(folder, packages) {
		record := path.Join(dir, "RECORD")
		text := readStart(folder, record, min(left, maxRecord))
		left -= int64(len(text))
		lines := csv.NewReader(bytes.NewReader(text))
		lines.FieldsPerRecord = -1
		for len(files) < maxFiles {
			fields, err := lines.Read()
			if err != nil {
				break
			}
			file := path.Clean(fields[0])
			files = append(files, file)
			compiled.add(file)
		}
		if len(files) < maxFiles {
			files = append(files, record)
		}
	}
	for cache, names := range compiled {
		files = appendCompiled(files, folder, cache, names)
	}
	return files
}

// add adds a file, if it is a module.
func (m modules) add(file string) {
	name, isModule := strings.CutSuffix(path.Base(file), ".py")
	cache := path.Join(path.Dir(file), "__pycache__")
	if !isModule || !fs.ValidPath(cache) {
		return
	}
	if m[cache] == nil {
		m[cache] = map[string]bool{}
	}
	m[cache][name] = true
}

// appendCompiled appends the files in a folder that were compiled from modules of these names: NAME.cpython-311.pyc.
func appendCompiled(files []string, folder fs.FS, cache string, names map[string]bool) []string {
	eachEntry(folder, cache, func(e fs.DirEntry) bool {
		for at, c := range []byte(e.Name()) {
			if c == '.' && names[e.Name()[:at]] {
				files = append(files, path.Join(cache, e.Name()))
				break
			}
		}
		return len(files) < maxFiles
	})
	return files
}

// eachEntry calls f for the entries of a folder until it returns false. It holds few of them.
func eachEntry(folder fs.FS, dir string, f func(fs.DirEntry) bool) {
	file, err := folder.Open(dir)
	if err != nil {
		return
	}
	defer file.Close()
	list, ok := file.(fs.ReadDirFile)
	for ok {
		entries, err := list.ReadDir(entriesBatch)
		for _, e := range entries {
			if !f(e) {
				return
			}
		}
		ok = err == nil
	}
}

var folded = sandbox.Installer{Folds: true}

const distSuffix = ".dist-info"

// distributions lists the folders that describe packages of a list, at most maxPresent, sorted.
func distributions(folder fs.FS, packages []sandbox.Package) (dirs []string) {
	type release struct{ name, version string }
	wanted := make(map[release]bool, len(packages))
	for i := range packages {
		wanted[release{folded.NameOf(packages[i].Name), packages[i].Version}] = true
	}
	eachEntry(folder, ".", func(e fs.DirEntry) bool {
		described, isDescription := strings.CutSuffix(e.Name(), distSuffix)
		name, version, _ := strings.Cut(described, "-")
		if isDescription && e.IsDir() && wanted[release{folded.NameOf(name), version}] {
			dirs = append(dirs, e.Name())
		}
		return len(dirs) < maxPresent
	})
	slices.Sort(dirs)
	return dirs
}

// readHead returns the start of a file up to an empty line, and how many bytes it has read, at most a number of bytes.
func readHead(folder fs.FS, name string, most int) (head []byte, read int) {
	f, err := folder.Open(name)
	if err != nil {
		return nil, 0
	}
	defer f.Close()
	for err == nil && len(head) < most {
		searched := max(len(head)-1, 0)
		var n int
		head = slices.Grow(head, headPiece)
		n, err = f.Read(head[len(head):min(len(head)+headPiece, most)])
		head = head[:len(head)+n]
		if end := bytes.Index(head[searched:], []byte("\n\n")); end >= 0 {
			return head[:searched+end], len(head)
		}
	}
	return head, len(head)
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
