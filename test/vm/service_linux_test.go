//go:build vm

package vm

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"strings"
	"testing"
	"time"
)

const (
	server  = "http://127.0.0.1:7070"
	patient = 4 * time.Minute // on an emulated processor
)

// TestService installs the deb, uses the service, upgrades it with a living sandbox, and removes it.
func TestService(t *testing.T) {
	const deb = "fumehood.deb"
	if _, err := os.Stat(deb); err != nil || os.Geteuid() != 0 {
		t.Skip("only root, with VM_DEB=FILE: the deb of make release")
	}
	before := traces(t)
	command(t, "dpkg", "-i", deb)
	t.Cleanup(func() {
		if t.Failed() {
			out, _ := exec.Command("journalctl", "-b", "--no-pager", "_SYSTEMD_UNIT=fumehood.service",
				"+", "SYSLOG_IDENTIFIER=fumehood", "+", "UNIT=fumehood.service").CombinedOutput()
			t.Logf("%s", out)
		}
	})
	command(t, "systemctl", "enable", "--now", "fumehood")
	ready(t)
	service, err := user.Lookup("fumehood")
	if err != nil {
		t.Fatal(err)
	}
	pid := mainPID(t)
	if got := strings.TrimSpace(command(t, "ps", "-o", "uid=", "-p", pid)); got != service.Uid {
		t.Errorf("the server runs as %s, not as %s", got, service.Uid)
	}
	t.Logf("%s", command(t, "systemd-analyze", "security", "--no-pager", "fumehood"))

	// Limits are enforced, or the server would refuse the request.
	if got := post(t, "/v1/run", `{"language": "python", "code": "print(6 * 7)"}`)["stdout"]; got != "42\n" {
		t.Errorf("a run printed %q", got)
	}
	if got := command(t, "env", "-u", "FUMEHOOD_VM_USER", "fumehood", "run", "-c", "print(6 * 7)"); got != "42\n" {
		t.Errorf("beside the service, a run of root printed %q", got)
	}
	post(t, "/v1/sandboxes", `{"name": "kept"}`)
	post(t, "/v1/sandboxes/kept/run", `{"code": "x = 41"}`)
	command(t, "dpkg", "-i", deb)
	ready(t)
	if mainPID(t) == pid {
		t.Errorf("the upgrade did not restart the server %s", pid)
	}
	if got := post(t, "/v1/sandboxes/kept/run", `{"code": "x + 1"}`)["text"]; got != "=> 42" {
		t.Errorf("after an upgrade, the living sandbox answered %q", got)
	}

	command(t, "dpkg", "--purge", "fumehood")
	for _, leftover := range strings.Fields(traces(t)) {
		if !strings.Contains(before, leftover) {
			t.Errorf("a trace: %s", leftover)
		}
	}
	if out, err := exec.Command("ps", "-o", "pid,args", "-u", service.Uid).Output(); err == nil {
		t.Errorf("processes of the service's user:\n%s", out)
	}
	if _, err := user.Lookup("fumehood"); !errors.As(err, new(user.UnknownUserError)) {
		t.Errorf("the user: %v", err)
	}
}

// traces lists what could be left of the service: files, control groups and subordinate ids.
func traces(t *testing.T) string {
	return command(t, "sh", "-c", `find / -xdev -path /proc -prune -o -path /opt -prune -o -path /root -prune \
		-o -path /var/lib/dpkg -prune -o -name '*fumehood*' -print
		find /run /tmp /dev /sys/fs/cgroup -iname '*fumehood*'
		cat /etc/subuid /etc/subgid`)
}

func mainPID(t *testing.T) string {
	t.Helper()
	return strings.TrimSpace(command(t, "systemctl", "show", "--property=MainPID", "--value", "fumehood"))
}

func command(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// ready waits until the server runs default requests.
func ready(t *testing.T) {
	t.Helper()
	var why any
	for end := time.Now().Add(patient); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		answer, err := http.Get(server + "/readyz")
		if err != nil {
			why = err
			continue
		}
		text, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		if answer.StatusCode == http.StatusOK {
			return
		}
		why = string(text)
	}
	t.Fatalf("the service is not ready: %v", why)
}

func post(t *testing.T, path, body string) map[string]any {
	t.Helper()
	answer, err := http.Post(server+path, "application/json", bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode >= http.StatusMultipleChoices {
		t.Fatalf("POST %s: %s %s %v", path, answer.Status, text, err)
	}
	var value map[string]any
	if err := json.Unmarshal(text, &value); err != nil {
		t.Fatal(err)
	}
	return value
}
