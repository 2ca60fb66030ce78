package sandbox

import "strings"

// maxImage bounds an image reference: a name of 255 bytes, a tag of 128, a digest.
const maxImage = 512

// CheckImage checks the form of an image reference, such as "python:3.12-slim" or "registry:5000/team/app@sha256:...":
// it starts with an ASCII letter or digit, and no part of its path is empty or begins with a dot. Registries take ..
// for the part above, so that a/../b would be another image than it shows. Only an engine knows whether the image
// exists.
func CheckImage(ref string) error {
	if path := "/" + ref; strings.Contains(path, "//") || strings.Contains(path, "/.") {
		return Invalidf("image", "%.80q is not an image reference", ref)
	}
	for i, r := range ref {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		if !letter && (i == 0 || !strings.ContainsRune("._-:/@", r)) {
			return Invalidf("image", "%.80q is not an image reference", ref)
		}
	}
	if ref == "" || len(ref) > maxImage {
		return Invalidf("image", "an image reference has 1 to %d bytes", maxImage)
	}
	return nil
}

// Image is what an image holds, and how its configuration wants it to be run.
type Image struct {
	Digest     string // of its content: it changes with it
	Env        []string
	User       User   // the zero value is DefaultUser
	WorkDir    string // of commands; "" is Workspace
	Entrypoint []string
	Cmd        []string // arguments of Entrypoint, or a whole command without one
	Start      *Start   // what its sandboxes start with; nil is nothing
	Note       string   // what of its configuration has no effect, and why; "" is nothing
}

// Start is the command that runs in every sandbox of an image, and the check that it is ready. A sandbox is ready when
// the check succeeds. Ready and Port exclude each other.
type Start struct {
	Command []string
	Ready   []string // a command that exits with 0 once it is; nil is none
	Port    uint16   // of the sandbox, which accepts connections once it is; 0 is none
}
