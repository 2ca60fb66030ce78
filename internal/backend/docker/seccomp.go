package docker

import (
	_ "embed" // the profile
	"os"
	"path/filepath"
)

// profile is the system call policy in the engines' format, for every processor: by name, without rules on arguments,
// which the guest's own filter has. A test generates it from the policy.
//
//go:embed seccomp.json
var profile []byte

// profileFile is its copy for Podman, in the instance's folder.
const profileFile = "seccomp.json"

// seccomp returns the security options for the profile. Docker takes its content. Podman (4.3) opens a file on its own
// host, so a remote Podman keeps its default profile.
func (box *Box) seccomp() ([]string, error) {
	if !box.to.podman {
		return []string{"seccomp=" + string(profile)}, nil
	}
	if !box.to.local {
		return nil, nil
	}
	path := filepath.Join(box.in.Dir, profileFile)
	if _, err := os.Stat(path); err == nil {
		return []string{"seccomp=" + path}, nil
	}
	temporary := filepath.Join(box.Dir, profileFile)
	if err := os.WriteFile(temporary, profile, 0o400); err != nil {
		return nil, err
	}
	return []string{"seccomp=" + path}, os.Rename(temporary, path)
}
