package hostid

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"time"
)

// Map maps the user and group ids of a user namespace to those of the host; groups use the same numbers as users.
type Map struct {
	Lines    []Line
	BySetuid bool // write by newuidmap and newgidmap (shadow-utils): the host ids include subordinate ones
}

// Line maps consecutive ids.
type Line struct {
	Inside, Host uint32
	Count        uint32 // 0 is 1
}

// toolTimeout bounds one call of newuidmap or newgidmap.
const toolTimeout = 10 * time.Second

// Write maps the ids of the namespace whose first process is pid.
func (m Map) Write(pid int) error {
	if m.BySetuid {
		return m.writeBySetuid(pid)
	}
	dir := "/proc/" + strconv.Itoa(pid)
	if os.Geteuid() != 0 {
		// An ordinary user may map a group only once setgroups is denied in the namespace (user_namespaces(7)).
		if err := os.WriteFile(dir+"/setgroups", []byte("deny"), 0); err != nil {
			return err
		}
	}
	var uids, gids []byte
	for _, l := range m.Lines {
		uids = fmt.Appendf(uids, "%d %d %d\n", l.Inside, l.Host, max(l.Count, 1))
		gid := l.Host
		if os.Geteuid() != 0 {
			gid = uint32(os.Getegid())
		}
		gids = fmt.Appendf(gids, "%d %d %d\n", l.Inside, gid, max(l.Count, 1))
	}
	if err := os.WriteFile(dir+"/gid_map", gids, 0); err != nil {
		return err
	}
	return os.WriteFile(dir+"/uid_map", uids, 0)
}

func (m Map) writeBySetuid(pid int) error {
	ctx, cancel := context.WithTimeout(context.Background(), toolTimeout)
	defer cancel()
	for _, tool := range []struct {
		name string
		own  int // the caller's own user or group id
	}{{"newuidmap", os.Geteuid()}, {"newgidmap", os.Getegid()}} {
		args := []string{strconv.Itoa(pid)}
		for _, l := range m.Lines {
			host := int(l.Host)
			if host == os.Geteuid() {
				host = tool.own
			}
			args = append(args, strconv.Itoa(int(l.Inside)), strconv.Itoa(host),
				strconv.Itoa(int(max(l.Count, 1))))
		}
		if out, err := exec.CommandContext(ctx, tool.name, args...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", tool.name, err, out)
		}
	}
	return nil
}
