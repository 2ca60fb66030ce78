package rootfs

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/fumehood-dev/fumehood/sandbox"
)

const maxAccounts = 64 << 10 // bytes of a root's accounts that a sandbox shows

// accounts returns passwd(5) and group(5) of a sandbox: its own, and those of a root other than the host's, which
// programs look up by name.
func accounts(root *os.Root, dir string, user sandbox.User) (passwd, group string) {
	passwd = fmt.Sprintf("root:x:0:0:root:/root:/usr/sbin/nologin\nagent:x:%d:%d:agent:%s:/bin/bash\n"+
		"nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n", user.UID, user.GID, sandbox.Home)
	group = fmt.Sprintf("root:x:0:\ntty:x:5:\nagent:x:%d:\nnogroup:x:65534:\n", user.GID)
	if dir == "/" {
		return passwd, group
	}
	return passwd + others(root, "etc/passwd", 7, "root", "agent", "nobody"),
		group + others(root, "etc/group", 4, "root", "tty", "agent", "nogroup")
}

// others returns the entries of an account file with other names. Each has this number of fields, the third of which is
// its id. Nobody else has id 0: a root is hostile, and its names for that id would mislead.
func others(root *os.Root, name string, fields int, known ...string) string {
	info, err := root.Lstat(name)
	if err != nil || !info.Mode().IsRegular() {
		return ""
	}
	f, err := root.Open(name)
	if err != nil {
		return ""
	}
	defer f.Close()
	var out strings.Builder
	for lines := bufio.NewScanner(io.LimitReader(f, maxAccounts)); lines.Scan(); {
		line := lines.Text()
		parts := strings.Split(line, ":")
		if len(parts) != fields || slices.Contains(known, parts[0]) {
			continue
		}
		if id, err := strconv.ParseUint(parts[2], 10, 32); err == nil && id != 0 {
			out.WriteString(line + "\n")
		}
	}
	return out.String()
}
