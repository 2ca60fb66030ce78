package gvisor

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/sandbox"
)

// held is a file that gVisor held for a sandbox when it was saved. A kernel that is restored opens the file of that name again and goes on
// with what it knew: the length, and what of it programs had mapped. Where it has become another, the sandbox would read nonsense.
type held struct {
	Path     string `json:"path"` // inside
	Size     int64  `json:"size"`
	Modified int64  `json:"modified"` // nanoseconds
}

// goferRoot is where the processes of a box on the host have its root.
const goferRoot = "/root"

// addHeld adds the regular files that the box's processes have open, of whatever the box shows. Several have each, and how many there are
// is the code's to choose.
func (box *Box) addHeld(files map[held]bool) {
	for _, pid := range box.Group.Processes() {
		folder := filepath.Join("/proc", itoa(pid), "fd")
		entries, _ := os.ReadDir(folder) // a process that is gone holds nothing
		for _, e := range entries {
			link := filepath.Join(folder, e.Name())
			at, err := os.Readlink(link)
			inside, is := strings.CutPrefix(at, goferRoot+"/")
			var st unix.Stat_t
			if err != nil || !is || unix.Stat(link, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
				continue
			}
			files[held{"/" + inside, st.Size, st.Mtim.Nano()}] = true
		}
	}
}

// unchanged refuses a checkpoint of which the host's system no longer has a file as it was. What lies in directories that the spec shows is
// no part of what was saved: gVisor asks the host about those.
func (r *root) unchanged(files []held, spec *sandbox.Spec) error {
	for _, f := range files {
		below := func(folder string) bool {
			return strings.HasPrefix(f.Path, filepath.Clean(folder)+"/") || f.Path == filepath.Clean(folder)
		}
		if slices.ContainsFunc(spec.Mounts, func(m sandbox.Mount) bool { return below(m.Target) }) ||
			slices.ContainsFunc(spec.Layers, func(l sandbox.Layer) bool { return below(l.At) }) {
			continue
		}
		i := slices.IndexFunc(r.shows, func(s shown) bool { return below(s.target) })
		if i < 0 {
			continue
		}
		var st unix.Stat_t
		err := unix.Lstat(r.shows[i].source+strings.TrimPrefix(f.Path, filepath.Clean(r.shows[i].target)), &st)
		if err == nil && (st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size != f.Size || st.Mtim.Nano() != f.Modified) {
			err = errors.New("it is another file than when the sandbox was saved")
		}
		if err != nil {
			return &sandbox.Error{Kind: sandbox.Invalid, Op: "gvisor: restore: " + f.Path, Err: err,
				Fix: "make the sandbox anew: what was saved of it fits the system that this host had then"}
		}
	}
	return nil
}
