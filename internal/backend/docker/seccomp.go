package docker

import (
	_ "embed" // the profile
	"os"
	"path/filepath"
)

// profile is the policy of system calls as engines read it, for every processor: by name, and without the rules of arguments, which the
// guest's own filter has. A test renders it from the policy.
//
//go:embed seccomp.json
var profile []byte

// profileFile is its copy for Podman, in the folder of the instance.
const profileFile = "seccomp.json"

// seccomp are the security options that name the profile. Docker is handed it; Podman (4.3) opens a file on its own host, so one that is
// elsewhere keeps to its own.
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
	temporary := filepath.Join(box.dir, profileFile)
	if err := os.WriteFile(temporary, profile, 0o400); err != nil {
		return nil, err
	}
	return []string{"seccomp=" + path}, os.Rename(temporary, path)
}
