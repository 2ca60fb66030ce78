package rootfs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestAccounts: a root adds users by other names than the sandbox's, and no second root.
func TestAccounts(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	text := "root:x:0:0::/:/bin/sh\nagent:x:7:7::/:/x\nevil:x:0:0:::\nevil2:x:00:0:::\n" +
		"short:x:8\napp:x:9:9::/:/bin/sh\n"
	if err := os.WriteFile(filepath.Join(dir, "etc/passwd"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	passwd, group := accounts(root, dir, sandbox.User{UID: 12, GID: 12})
	if !strings.HasSuffix(passwd, "/usr/sbin/nologin\napp:x:9:9::/:/bin/sh\n") ||
		!strings.Contains(passwd, "agent:x:12:12:") || strings.Count(passwd, "\n") != 4 {
		t.Errorf("%q", passwd)
	}
	if strings.Count(group, "\n") != 4 {
		t.Errorf("%q", group)
	}
	if host, _ := accounts(root, "/", sandbox.DefaultUser); strings.Contains(host, "app") {
		t.Errorf("of the host: %q", host)
	}
}
