package image

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path"
	"strconv"
	"strings"

	"github.com/fumehood-dev/fumehood/internal/host/rootfs"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Config is how the image wants to be run.
type Config struct {
	Env        []string `json:"env,omitempty"`
	User       string   `json:"user,omitempty"`
	Dir        string   `json:"dir,omitempty"`
	Entrypoint []string `json:"entrypoint,omitempty"`
	Command    []string `json:"command,omitempty"`

	Start *sandbox.Start `json:"start,omitempty"` // what its sandboxes start with; nil is nothing
}

// Bounds of the work for each request.
const (
	maxPasswd  = 64 << 10 // bytes that are read of an image's /etc/passwd: as much as code sees
	maxUser    = 256      // bytes of a name that is looked for in it
	maxWorkDir = 32       // folders of a working directory, each of which is opened
)

// settings returns how an image is run in sandboxes. Its note says what they cannot have.
func (s *Store) settings(i Image) sandbox.Image {
	c := i.Config
	out := sandbox.Image{Digest: i.Tree, Env: c.Env, Entrypoint: c.Entrypoint, Cmd: c.Command, Start: c.Start}
	var notes []string
	note := func(format string, values ...any) { notes = append(notes, fmt.Sprintf("the image "+format, values...)) }
	files := s.trees.Files(i.Tree)
	user, group, err := findUser(files, c.User)
	switch {
	case err != nil:
		note("names the user %.40q, which %v: the code runs as %v", c.User, err, sandbox.DefaultUser)
	case user != 0:
		out.User = sandbox.User{UID: user, GID: user}
		if group != user {
			note("names the group %d of its user: the code's group is %d", group, user)
		}
	}
	switch dir := path.Clean("/" + c.Dir); {
	case dir == "/" || dir == sandbox.Workspace:
	case !rootfs.Shows(dir):
		note("names the working directory %.80q, which sandboxes do not show: it is %s", dir, sandbox.Workspace)
	default:
		if enterable(files, dir) {
			out.WorkDir = dir
		} else {
			note("names the working directory %.80q, which the code cannot enter: it is %s", dir, sandbox.Workspace)
		}
	}
	out.Note = strings.Join(notes, "; ")
	return out
}

// enterable reports whether a folder exists, and every user can enter it and those above it.
func enterable(files, dir string) bool {
	if strings.Count(dir, "/") > maxWorkDir {
		return false
	}
	for at := dir; at != "/"; at = path.Dir(at) {
		f, err := openInside(files, at, true)
		if err != nil {
			return false
		}
		info, err := f.Stat()
		f.Close()
		if err != nil || info.Mode()&1 == 0 {
			return false
		}
	}
	return true
}

// findUser returns the ids of a user of an image: by number, or by name in its /etc/passwd. 0 is root, or none named.
func findUser(files, text string) (user, group uint32, err error) {
	name, groupName, _ := strings.Cut(text, ":")
	if name == "" || name == "root" {
		return 0, 0, nil
	}
	user, known := parseID(name)
	group = user
	if !known {
		fields, err := findEntry(files, "etc/passwd", name)
		if err != nil {
			return 0, 0, err
		}
		if user, known = parseID(fields[2]); !known {
			return 0, 0, fmt.Errorf("has no usable id")
		}
		if id, ok := parseID(fields[3]); ok {
			group = id
		}
	}
	if id, ok := parseID(groupName); ok {
		group = id
	} else if groupName != "" {
		group = 0
		if fields, err := findEntry(files, "etc/group", groupName); err == nil {
			group, _ = parseID(fields[2])
		}
	}
	return user, group, nil
}

// parseID parses a user id that a sandbox can map.
func parseID(text string) (uint32, bool) {
	id, err := strconv.ParseUint(text, 10, 31)
	return uint32(id), err == nil
}

// findEntry returns the fields of the first line of a name in a file like passwd(5) or group(5), at least four.
func findEntry(files, file, name string) ([]string, error) {
	if len(name) > maxUser {
		return nil, fmt.Errorf("is too long")
	}
	f, err := openInside(files, file, false)
	if err != nil {
		return nil, fmt.Errorf("its /%s does not have", file)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxPasswd))
	if err != nil {
		return nil, err
	}
	_, line, found := bytes.Cut(append([]byte("\n"), text...), []byte("\n"+name+":"))
	line, _, _ = bytes.Cut(line, []byte("\n"))
	if fields := strings.SplitN(name+":"+string(line), ":", 5); found && len(fields) >= 4 {
		return fields, nil
	}
	return nil, fmt.Errorf("its /%s does not have", file)
}

// regular returns a file if it is a regular one, and else closes it.
func regular(f *os.File) (*os.File, error) {
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = os.ErrInvalid
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
