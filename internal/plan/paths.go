package plan

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// CheckPath checks that p is a path below the workspace: relative, clean, without "..".
func CheckPath(field, p string) error {
	switch {
	case p == "":
		return sandbox.Invalidf(field, "is empty")
	case len(p) > MaxPath:
		return sandbox.Invalidf(field, "is longer than %d bytes", MaxPath)
	case strings.IndexByte(p, 0) >= 0:
		return sandbox.Invalidf(field, "holds a NUL byte")
	case p[0] == '/':
		return sandbox.Invalidf(field, "%.80q is absolute; paths are relative to %s", p, sandbox.Workspace)
	case p[len(p)-1] == '/':
		return sandbox.Invalidf(field, "%.80q ends in a slash; only files can be sent, and their folders are made", p)
	}
	if strings.Count(p, "/") >= MaxDepth {
		return sandbox.Invalidf(field, "%.80q is more than %d folders deep", p, MaxDepth)
	}
	for element := range strings.SplitSeq(p, "/") {
		switch {
		case element == "..":
			return sandbox.Invalidf(field, "%.80q leaves the workspace", p)
		case element == "" || element == ".":
			return sandbox.Invalidf(field, "%.80q is not clean; write %.80q", p, path.Clean(p))
		case len(element) > MaxName:
			return sandbox.Invalidf(field, "%.80q has a name longer than %d bytes", p, MaxName)
		}
	}
	return nil
}

// checkFiles checks that all files can be made: each path is plain, none is repeated, none is the folder of another.
// taken is the path of the code in the workspace, or "".
func checkFiles(files []sandbox.File, taken string) error {
	if len(files) > MaxFiles {
		return &sandbox.Error{Kind: sandbox.TooLarge, Op: "files",
			Msg: fmt.Sprintf("%d files are over the limit of %d", len(files), MaxFiles)}
	}
	var total int64
	// Sort a folder right before its contents: by bytes, with the slash before all others.
	const slash = "\x00" // no path holds it
	paths := make([]string, 0, len(files)+1)
	for i, f := range files {
		field := fmt.Sprintf("files[%d].path", i)
		if err := CheckPath(field, f.Path); err != nil {
			return err
		}
		if f.Mode&^0o777 != 0 {
			return sandbox.Invalidf(fmt.Sprintf("files[%d].mode", i), "%#o has more than permission bits", f.Mode)
		}
		total += int64(len(f.Data))
		paths = append(paths, strings.ReplaceAll(f.Path, "/", slash))
	}
	if total > MaxFilesBytes {
		return &sandbox.Error{Kind: sandbox.TooLarge, Op: "files",
			Msg: sandbox.FormatBytes(total) + " is over the limit of " + sandbox.FormatBytes(MaxFilesBytes)}
	}
	if taken != "" {
		paths = append(paths, taken) // a name without folders
	}
	slices.Sort(paths)
	for i := 1; i < len(paths); i++ {
		last, this := paths[i-1], paths[i]
		shown := func(p string) string { return strings.ReplaceAll(p, slash, "/") }
		switch {
		case this == last && this == taken:
			return sandbox.Invalidf("files", "%.80q is the name of the code's file", taken)
		case this == last:
			return sandbox.Invalidf("files", "%.80q is given twice", shown(this))
		case strings.HasPrefix(this, last) && this[len(last):len(last)+1] == slash:
			return sandbox.Invalidf("files", "%.80q is both a file and the folder of %.80q", shown(last), shown(this))
		}
	}
	return nil
}

// Dir returns the absolute working directory; dir may be relative to the workspace. It refuses the kernel's own file
// systems: /proc/self/fd leads elsewhere (CVE-2024-21626).
func Dir(dir string) (string, error) {
	if len(dir) > MaxPath {
		return "", sandbox.Invalidf("dir", "is longer than %d bytes", MaxPath)
	}
	if strings.IndexByte(dir, 0) >= 0 {
		return "", sandbox.Invalidf("dir", "holds a NUL byte")
	}
	if !path.IsAbs(dir) {
		dir = sandbox.Workspace + "/" + dir
	}
	dir = path.Clean(dir)
	if kernelPath(dir) {
		return "", sandbox.Invalidf("dir", "%.80q cannot be a working directory; choose one below %s", dir,
			sandbox.Workspace)
	}
	return dir, nil
}

// FilePath returns the absolute path of a file of a sandbox, which may be given relative to the workspace. It refuses
// the kernel's own file systems.
func FilePath(file string) (string, error) {
	switch {
	case file == "":
		return "", sandbox.Invalidf("path", "is empty")
	case len(file) > MaxPath:
		return "", sandbox.Invalidf("path", "is longer than %d bytes", MaxPath)
	case strings.IndexByte(file, 0) >= 0:
		return "", sandbox.Invalidf("path", "holds a NUL byte")
	}
	full := file
	if !path.IsAbs(full) {
		full = sandbox.Workspace + "/" + full
	}
	full = path.Clean(full)
	switch {
	case kernelPath(full):
		return "", sandbox.Invalidf("path", "%.80q is not a file of the sandbox", file)
	case !path.IsAbs(file) && full != sandbox.Workspace && !strings.HasPrefix(full, sandbox.Workspace+"/"):
		return "", sandbox.Invalidf("path", "%.80q leaves %s; for another file give its absolute path", file,
			sandbox.Workspace)
	}
	return full, nil
}

// kernelPath reports whether a clean absolute path leads into a virtual file system of the kernel.
func kernelPath(p string) bool {
	for _, root := range []string{"/proc", "/sys", "/dev"} {
		if p == root || strings.HasPrefix(p, root+"/") {
			return true
		}
	}
	return false
}

// checkMounts checks the paths and targets of mounts and workspace. The backend checks what they are.
func checkMounts(spec *sandbox.Spec) error {
	if err := checkHostPath("workspace", spec.Workspace); spec.Workspace != "" && err != nil {
		return err
	}
	if spec.Root.Dir != "" && spec.Root.Image != "" {
		return sandbox.Invalidf("root", "is both a directory and an image")
	}
	if spec.Root.Dir != "" && !path.IsAbs(spec.Root.Dir) {
		return sandbox.Invalidf("root", "%.80q is not an absolute path", spec.Root.Dir)
	}
	seen := map[string]bool{sandbox.Workspace: true}
	for i, m := range spec.Mounts {
		field := fmt.Sprintf("mounts[%d]", i)
		if err := checkHostPath(field, m.Source); err != nil {
			return err
		}
		switch {
		case !path.IsAbs(m.Target) || path.Clean(m.Target) != m.Target || m.Target == "/" || len(m.Target) > MaxPath ||
			strings.IndexByte(m.Target, 0) >= 0:
			return sandbox.Invalidf(field, "%.80q is not a clean absolute path below /", m.Target)
		case kernelPath(m.Target):
			return sandbox.Invalidf(field, "nothing can be mounted on %.80q", m.Target)
		case seen[m.Target]:
			return sandbox.Invalidf(field, "%.80q is taken", m.Target)
		}
		seen[m.Target] = true
	}
	return nil
}

func checkHostPath(field, p string) error {
	switch {
	case p == "/":
		return sandbox.Invalidf(field, "is the root of the host")
	case !path.IsAbs(p) || path.Clean(p) != p:
		return sandbox.Invalidf(field, "%.80q is not a clean absolute path", p)
	case len(p) > MaxPath || strings.IndexByte(p, 0) >= 0:
		return sandbox.Invalidf(field, "is too long or holds a NUL byte")
	}
	return nil
}
