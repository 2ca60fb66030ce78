package gvisor

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// held is a file that gVisor had open when a sandbox was saved. The restored kernel opens that name again and relies on
// the saved length and mapped parts. If the file has changed, the sandbox would read garbage.
type held struct {
	Path     string `json:"path"` // inside
	Size     int64  `json:"size"`
	Modified int64  `json:"modified"` // nanoseconds
}

// goferRoot is the root of a box's host processes.
const goferRoot = "/root"

// addHeld adds the regular files that the box's processes have open.
func (box *Box) addHeld(files map[held]bool) {
	for _, pid := range box.Group.Processes() {
		folder := filepath.Join("/proc", strconv.Itoa(pid), "fd")
		entries, _ := os.ReadDir(folder) // an ended process holds nothing
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

// unchanged refuses a checkpoint if one of its host system files has changed. It ignores directories of the spec:
// gVisor queries the host about their files again.
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
			err = errors.New("it has changed since the sandbox was saved")
		}
		if err != nil {
			return &sandbox.Error{Kind: sandbox.Invalid, Op: "gvisor: restore: " + f.Path, Err: err,
				Fix: "create a new sandbox: this checkpoint needs the host's former files"}
		}
	}
	return nil
}
