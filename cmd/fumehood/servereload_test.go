package main

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/internal/httpd"
)

// fumehoodWith runs a command line in this process, and returns its exit code, its output and its messages.
func fumehoodWith(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	m := testApp(t).Main
	m.Stdout, m.Stderr = &out, &errs
	code = m.Run(t.Context(), args)
	return code, out.String(), errs.String()
}

// TestServeReload: a running server takes keys and limits from changed files, keeps its state while a file is broken,
// and ends the streams of a revoked key. The service manager learns of each step.
func TestServeReload(t *testing.T) {
	dir := t.TempDir()
	keys, config := filepath.Join(dir, "keys"), filepath.Join(dir, "fumehood.toml")
	key := func(name string, options ...string) string {
		t.Helper()
		code, out, errs := fumehoodWith(t, append([]string{"keys", "create", name, "--file", keys}, options...)...)
		if code != 0 {
			t.Fatal(errs)
		}
		return strings.TrimSpace(out)
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	access := filepath.Join(dir, "access")
	common := fmt.Sprintf("api_key_file = %q\nallow_unenforced = %s\naccess_log = %q\n", keys, waived, access)
	common += "templates = \"1MiB\"\npull_images = true\n"
	images := "allow_image = [\"offered*\"]\n"
	common += images
	write(common + `max_memory = "1GiB"`)
	alice := key("alice")
	told := listenManager(t, filepath.Join(dir, "notify"))
	interrupts := make(chan os.Signal, 2)
	s := startServerWith(t, func(m *Main) {
		lookup := m.LookupEnv
		m.Interrupts = interrupts
		m.LookupEnv = func(name string) (string, bool) {
			if name == "NOTIFY_SOCKET" {
				return filepath.Join(dir, "notify"), true
			}
			return lookup(name)
		}
	}, "--config", config)
	s.interrupts = interrupts
	told(t, "READY=1")
	run := func(secret, limits string) (int, map[string]any) {
		return s.post(t, "/v1/run", `{"command":["true"],"limits":{`+limits+`}}`, "X-API-Key", secret)
	}
	if code, answer := run(alice, ""); code != 200 {
		t.Fatal(code, answer)
	}
	stream, lines := s.follow(t, alice)
	defer stream.Body.Close()

	bob := key("bob", "--rate", "2/h", "--max-memory", "256MiB") // the change of the file is enough
	s.said.wait(t, `reloaded the API keys: added bob`)
	if code, answer := run(bob, `"memory_mib":300`); code == 200 || !strings.Contains(fmt.Sprint(answer), "256MiB") {
		t.Error(code, answer)
	}
	if code, answer := run(bob, `"memory_mib":200`); code != 200 {
		t.Error(code, answer)
	}
	code, header, answer := s.sendWith(t, "POST", "/v1/run", `{"command":["true"]}`, "X-API-Key", bob)
	if wait := header.Get("Retry-After"); code != http.StatusTooManyRequests || !retryAfter.MatchString(wait) {
		t.Error(code, answer, wait)
	}

	if err := os.Rename(access, access+".1"); err != nil { // as logrotate does
		t.Fatal(err)
	}
	code, answer = s.post(t, "/v1/templates", `{"name":"offered","dockerfile":"FROM other"}`, "X-API-Key", alice)
	if !strings.Contains(fmt.Sprint(answer), `does not offer "other"`) {
		t.Error(code, answer)
	}
	write(common + "max_memory = \"600MiB\"\nwarm = 0\nnetwork_allow = []\n")
	interrupts <- syscall.SIGHUP
	s.said.wait(t, `changes of these settings need a restart: warm`)
	s.said.wait(t, `reloaded the settings: max-memory is 600MiB, was 1GiB, network-allow is \[\], was unset`)
	told(t, "RELOADING=1\nMONOTONIC_USEC=")
	told(t, "READY=1")
	if code, answer := run(alice, `"memory_mib":700`); !strings.Contains(fmt.Sprint(answer), "600MiB") {
		t.Error(code, answer)
	}
	write("max_memry = 1")
	interrupts <- syscall.SIGHUP
	s.said.wait(t, `the limits stay as they are: .*max_memry`)
	told(t, "RELOADING=1")
	told(t, "READY=1")

	write(strings.ReplaceAll(strings.ReplaceAll(common, images, ""), "pull_images = true", ""))
	interrupts <- syscall.SIGHUP
	s.said.wait(t, `the limits stay as they are: --pull-images`) // it would fetch any image
	told(t, "RELOADING=1")
	told(t, "READY=1")

	text, err := os.ReadFile(keys)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(keys, []byte("alice sha256:broken\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	interrupts <- syscall.SIGHUP
	s.said.wait(t, `the API keys stay as they are: .*line 1`)
	told(t, "RELOADING=1")
	told(t, "READY=1")
	if code, answer := run(alice, ""); code != 200 {
		t.Error(code, answer)
	}
	if err := os.WriteFile(keys, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := fumehoodWith(t, "keys", "revoke", "alice", "--file", keys); code != 0 {
		t.Fatal(errs)
	}
	interrupts <- syscall.SIGHUP
	s.said.wait(t, `reloaded the API keys: removed alice`)
	told(t, "RELOADING=1")
	told(t, "READY=1")
	for lines.Scan() { // until the stream ends
	}
	if code, answer := run(alice, ""); code != http.StatusUnauthorized {
		t.Error(code, answer)
	}
	_, _ = s.send(t, http.MethodGet, "/v1/x/fhx_typed_by_mistake?token=hidden", "", "X-API-Key", bob)
	s.interrupt()
	told(t, "STOPPING=1")
	checkAccessLog(t, access, bob)
}

// TestReloadAtStart: a server that gets SIGHUP while it starts reads its settings again once it serves.
func TestReloadAtStart(t *testing.T) {
	config, interrupts := filepath.Join(t.TempDir(), "fumehood.toml"), make(chan os.Signal, 2)
	write := func(text string) {
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Error(err)
		}
	}
	write(`max_memory = "1GiB"`)
	earlier, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &served{said: &said{}, exit: make(chan int, 1), interrupts: interrupts}
	m := testApp(t).Main
	m.Stdout, m.Stderr, m.Interrupts = s.said, s.said, interrupts
	go func() {
		s.exit <- m.Run(t.Context(), []string{"serve", "--config", config, "--private", "--listen",
			earlier.Addr().String()})
	}()
	s.said.wait(t, "waiting up to 3s for a server that is ending")
	write(`max_memory = "600MiB"`)
	interrupts <- syscall.SIGHUP
	for len(interrupts) > 0 {
		time.Sleep(time.Millisecond)
	}
	earlier.Close()
	s.said.wait(t, `reloaded the settings: max-memory is 600MiB, was 1GiB`)
	s.stop(t)
}

// TestReloadKeepsShares: after a reload, the shares of a client are parts of the server's slots and queue.
func TestReloadKeepsShares(t *testing.T) {
	running, next := serveFlags{}, serveFlags{}
	running.config.Slots, running.config.Queue = 4, 6
	next.config.Slots, next.config.Queue = 100, 100
	next.keep(&running)
	config, err := next.limited([]httpd.Key{{Name: "a"}, {Name: "b"}}, nil)
	if err != nil || config.OwnerSlots != 2 || config.OwnerQueue != 3 {
		t.Error(config.Shares, err)
	}
}

// TestDefaultBackend: the default is one of the backends that requests may name; if others can reach the server, it is
// the strongest of them.
func TestDefaultBackend(t *testing.T) {
	here, everywhere := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)}
	for _, c := range []struct {
		addr      net.Addr
		named     string
		allowed   []string
		byDefault string
		all       []string
	}{
		{here, "", nil, "", nil}, {everywhere, "", nil, "auto", []string{"auto"}},
		{everywhere, "native", nil, "native", []string{"native"}},
		{here, "", []string{"native"}, "native", []string{"native"}},
		{everywhere, "", []string{"native"}, "auto", []string{"native"}},
		{everywhere, "auto", []string{"native"}, "auto", []string{"native", "auto"}},
	} {
		var f serveFlags
		f.config.Default, f.config.Allowed = c.named, c.allowed
		config, err := f.limited(nil, c.addr)
		if err != nil || config.Default != c.byDefault || !slices.Equal(config.Allowed, c.all) {
			t.Errorf("%v: %q, %q, %v", c, config.Default, config.Allowed, err)
		}
	}
}

// checkAccessLog checks both files of the access log.
func checkAccessLog(t *testing.T, access, secret string) {
	t.Helper()
	before, err := os.ReadFile(access + ".1")
	if err != nil {
		t.Fatal(err)
	}
	after, err := os.ReadFile(access)
	if err != nil {
		t.Fatal(err)
	}
	both := string(before) + string(after)
	for _, wanted := range []string{`"key":"alice","client":"127.0.0.1:`, `"method":"POST","path":"/v1/run"`,
		`"status":401`, `"status":429`, `"path":"/v1/x/fhx_..."`, `"path":"/v1/sandboxes/long/run"`} {
		if !strings.Contains(both, wanted) {
			t.Errorf("%s is not in\n%s", wanted, both)
		}
	}
	if match := regexp.MustCompile(`"path":"/v1/sandboxes/long/run".*"sandbox":"[^"]+"`); !match.MatchString(both) {
		t.Error("the sandbox is not logged")
	}
	if strings.Contains(both, "hidden") || strings.Contains(both, "mistake") || strings.Contains(both, secret) {
		t.Errorf("a secret is in\n%s", both)
	}
}

// retryAfter are the seconds until a rate of two in an hour admits the next request.
var retryAfter = regexp.MustCompile(`^1[78][0-9]{2}$`)

// waived are limits that a host of tests may not enforce.
const waived = `["memory","pids","cpus","disk","inodes"]`

// follow creates a sandbox and a background run in it, and follows the events of the run.
func (s *served) follow(t *testing.T, secret string) (*http.Response, *bufio.Scanner) {
	t.Helper()
	code, answer := s.post(t, "/v1/sandboxes", `{"name":"long"}`, "X-API-Key", secret)
	if code != http.StatusCreated {
		t.Fatal(code, answer)
	}
	code, answer = s.post(t, "/v1/sandboxes/long/run",
		`{"command":["sh","-c","echo on; sleep 1000"],"background":true}`, "X-API-Key", secret)
	url := s.url + fmt.Sprintf("/v1/sandboxes/long/runs/%v/events", answer["id"])
	request, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("X-API-Key", secret)
	response, err := s.client.Do(request)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatal(code, answer, response, err)
	}
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() && !strings.Contains(lines.Text(), "on") {
	}
	return response, lines
}

// listenManager is a service manager. The function that it returns waits for a message.
func listenManager(t *testing.T, path string) func(t *testing.T, wanted string) {
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Skip("SKIPPED, NOT TESTED: ", err)
	}
	t.Cleanup(func() { conn.Close() })
	return func(t *testing.T, wanted string) {
		t.Helper()
		text := make([]byte, 4096)
		n, err := conn.Read(text)
		if err != nil || !strings.HasPrefix(string(text[:n]), wanted) {
			t.Errorf("%q, not %q: %v", text[:n], wanted, err)
		}
	}
}
