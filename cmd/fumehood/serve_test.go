package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/internal/cli/settings"
	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/host/capacity"
	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// stepTimeout limits each wait; no test asserts durations.
const stepTimeout = 2 * time.Minute

// said collects a server's output, and lets a test wait for a part of it.
type said struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// forget drops the output so far.
func (s *said) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text.Reset()
}

func (s *said) wait(t *testing.T, pattern string) []string {
	t.Helper()
	wanted := regexp.MustCompile(pattern)
	for deadline := time.Now().Add(stepTimeout); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if m := wanted.FindStringSubmatch(s.String()); m != nil {
			return m
		}
	}
	t.Fatalf("nothing matches %s in:\n%s", pattern, s.String())
	return nil
}

// served is `fumehood serve` in this process.
type served struct {
	client     http.Client
	url        string
	said       *said
	interrupts chan os.Signal
	once       sync.Once
	exit       chan int
}

// interrupt asks the server to end in order; a second interrupt would end it at once.
func (s *served) interrupt() { s.once.Do(func() { s.interrupts <- os.Interrupt }) }

func startServer(t *testing.T, args ...string) *served {
	t.Helper()
	return startServerWith(t, func(*Main) {}, args...)
}

// startServerLacking starts a server on a host that is assumed to lack a feature.
func startServerLacking(t *testing.T, lack []string, args ...string) *served {
	t.Helper()
	return startServerWith(t, func(m *Main) { m.Lack = lack }, args...)
}

// startServerWith starts a server in an environment that a test changes.
func startServerWith(t *testing.T, change func(*Main), args ...string) *served {
	t.Helper()
	s := &served{said: &said{}, interrupts: make(chan os.Signal, 2), exit: make(chan int, 1)}
	m := testApp(t).Main
	m.Stdout, m.Stderr, m.Interrupts = s.said, s.said, s.interrupts
	change(&m)
	state := t.TempDir()
	if err := os.Chmod(state, 0o700); err != nil { // a test may have no umask
		t.Fatal(err)
	}
	go func() {
		s.exit <- m.Run(context.Background(), append([]string{"serve", "--listen", "127.0.0.1:0", "--state-dir", state,
			"--no-local-socket"}, args...))
	}()
	s.url = s.said.wait(t, `listening on (\S+)`)[1]
	t.Cleanup(func() { s.stop(t) })
	return s
}

// A private server ends, with its sandboxes, once the program that started it closed its standard input or died.
func TestServePrivate(t *testing.T) {
	stdin, program, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	s := &served{said: &said{}, exit: make(chan int, 1)}
	m := testApp(t).Main
	m.Stdin, m.Stdout, m.Stderr = stdin, s.said, s.said
	go func() {
		s.exit <- m.Run(context.Background(), []string{"serve", "--private", "--listen", "127.0.0.1:0"})
	}()
	s.url = s.said.wait(t, `listening on (\S+)`)[1]
	if code, answer := s.post(t, "/v1/sandboxes", `{`+weaker+`}`); code != http.StatusCreated {
		t.Errorf("%d %v", code, answer)
	}
	program.Close()
	select {
	case code := <-s.exit:
		if code != 0 {
			t.Errorf("it ended with %d and said:\n%s", code, s.said)
		}
	case <-time.After(stepTimeout):
		t.Fatalf("it does not end; it said:\n%s", s.said)
	}
}

func (s *served) stop(t *testing.T) {
	s.interrupt()
	select {
	case code := <-s.exit:
		if code != 0 {
			t.Errorf("the server ended with %d and said:\n%s", code, s.said)
		}
	case <-time.After(stepTimeout):
		t.Errorf("the server does not end; it said:\n%s", s.said)
	}
}

func (s *served) post(t *testing.T, path, body string, headers ...string) (int, map[string]any) {
	t.Helper()
	return s.send(t, http.MethodPost, path, body, headers...)
}

func (s *served) send(t *testing.T, method, path, body string, headers ...string) (int, map[string]any) {
	t.Helper()
	code, _, answer := s.sendWith(t, method, path, body, headers...)
	return code, answer
}

// sendWith is send that also returns the headers of the answer.
func (s *served) sendWith(t *testing.T, method, path, body string, headers ...string) (
	int, http.Header, map[string]any) {
	t.Helper()
	request, err := http.NewRequest(method, s.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := s.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	var answer map[string]any
	if err := json.Unmarshal(text, &answer); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return response.StatusCode, response.Header, answer
}

// weaker waives the limits that some hosts cannot enforce for an ordinary user.
const weaker = `"allow_unenforced":["memory"]`

// TestServeWarns: the start and /readyz report why the default backend does not work, and the fix; they ignore other
// backends.
func TestServeWarns(t *testing.T) {
	t.Setenv("DOCKER_HOST", "unix://"+filepath.Join(t.TempDir(), "nowhere.sock"))
	if s := startServer(t, "--backend", "docker"); !strings.Contains(s.said.String(),
		"so /readyz answers 503: docker: reach the engine: ") {
		t.Errorf("it says %s", s.said)
	}
	if s := startServer(t, "--allow-unenforced", "memory"); strings.Contains(s.said.String(), "warning") {
		t.Errorf("it says %s", s.said)
	}
}

// TestServeOffersNothing: an empty list in the file of settings opens and offers nothing.
func TestServeOffersNothing(t *testing.T) {
	config := filepath.Join(t.TempDir(), "config.toml")
	text := []byte("network_allow = []\nallow_image = []\nallow_backend = []\n")
	if err := os.WriteFile(config, text, 0o600); err != nil {
		t.Fatal(err)
	}
	s := startServer(t, "--config", config)
	if _, answer := s.send(t, http.MethodGet, "/v1/capabilities", ""); fmt.Sprint(answer["network"],
		answer["network_allow"]) != "[none restricted] []" {
		t.Error(answer)
	}
	for named, want := range map[string]string{"image": "does not offer",
		"backend": "gvisor is not offered here hint:leave it out kind"} {
		code, answer := s.post(t, "/v1/run", `{"command":["true"],"`+named+`":"gvisor"}`)
		if code != http.StatusBadRequest || !strings.Contains(fmt.Sprint(answer), want) {
			t.Error(code, answer)
		}
	}
}

// TestServeOffers: the operator chooses the backends and images of clients.
func TestServeOffers(t *testing.T) {
	run := func(s *served, fields string) (int, string) {
		code, answer := s.post(t, "/v1/run", `{"language":"bash","code":"true",`+fields+weaker+`}`)
		return code, fmt.Sprint(answer)
	}
	s := startServer(t, "--backend", "native", "--allow-image", "docker.io/library/*")
	if code, answer := run(s, `"backend":"gvisor",`); code != http.StatusUnprocessableEntity &&
		code != http.StatusBadRequest || !strings.Contains(answer, "not offered") {
		t.Errorf("another backend: %d %s", code, answer)
	}
	if code, answer := run(s, `"backend":"auto",`); code == http.StatusOK || !strings.Contains(answer, "not offered") {
		t.Errorf("whatever is strongest: %d %s", code, answer)
	}
	if code, answer := run(s, `"backend":"native",`); code != http.StatusOK {
		t.Errorf("its own backend: %d %s", code, answer)
	}
	if code, answer := run(s, `"image":"localhost/private",`); code == http.StatusOK || !strings.Contains(answer,
		"does not offer") {
		t.Errorf("another image: %d %s", code, answer)
	}
	if code, answer := run(s, `"image":"docker.io/library/python",`); code == http.StatusOK || strings.Contains(answer,
		"does not offer") {
		t.Errorf("an image that is offered, and native has none: %d %s", code, answer)
	}
	s = startServer(t, "--allow-backend", "gvisor")
	if code, answer := run(s, ""); code != http.StatusOK || !strings.Contains(answer, "backend:gvisor") {
		t.Errorf("a request that names none: %d %s", code, answer)
	}
	s = startServer(t, "--allow-backend", "native,gvisor")
	if code, answer := run(s, `"backend":"docker",`); code == http.StatusOK || !strings.Contains(answer,
		"native, gvisor") {
		t.Errorf("one that is not on the list: %d %s", code, answer)
	}
}

func TestServeRuns(t *testing.T) {
	s := startServer(t)
	code, answer := s.post(t, "/v1/run", `{"language":"python","code":"print(6*7)",`+weaker+`}`)
	if code != http.StatusOK || answer["stdout"] != "42\n" || answer["status"] != "succeeded" {
		t.Errorf("%d %v", code, answer)
	}
	if !isReady(t) {
		return // the small schema has no waivers
	}
	code, answer = s.post(t, "/execute", `{"code":"print(6*7)"}`)
	if code != http.StatusOK || answer["output"] != "42\n" || answer["success"] != true {
		t.Errorf("%d %v", code, answer)
	}
}

// TestServeDrains: after an interrupt, an active run still ends by itself and is answered.
func TestServeDrains(t *testing.T) {
	s := startServer(t)
	request, err := http.NewRequest(http.MethodPost, s.url+"/v1/run",
		strings.NewReader(`{"language":"bash","code":"echo begun; sleep 1; echo done",`+weaker+`}`))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", "text/event-stream")
	client := http.Client{Timeout: stepTimeout}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	events := bufio.NewReader(response.Body)
	for line := ""; line != "event: stdout\n"; {
		if line, err = events.ReadString('\n'); err != nil {
			t.Fatalf("the run never began: %v", err)
		}
	}
	s.interrupt()
	s.said.wait(t, "draining")
	if rest, err := io.ReadAll(events); err != nil || !bytes.Contains(rest, []byte(`"text":"done\n"`)) ||
		!bytes.Contains(rest, []byte("event: done")) {
		t.Errorf("%v after %s", err, rest)
	}
}

func TestServeWithKeys(t *testing.T) {
	var out bytes.Buffer
	m := testApp(t).Main
	m.Stdout = &out
	if code := m.Run(t.Context(), []string{"keys", "create", "alice", "--json"}); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	var made struct{ Key, Line string }
	if err := json.Unmarshal(out.Bytes(), &made); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(file, []byte("# who may come in\n\n"+made.Line+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := startServer(t, "--api-key-file", file)
	body := `{"language":"bash","code":"echo in",` + weaker + `}`
	if code, _ := s.post(t, "/v1/run", body); code != http.StatusUnauthorized {
		t.Errorf("without a key: %d", code)
	}
	if code, _ := s.post(t, "/v1/run", body, "Authorization", "Bearer fhx_wrong"); code != http.StatusUnauthorized {
		t.Errorf("with a wrong key: %d", code)
	}
	if code, answer := s.post(t, "/v1/run", body, "Authorization", "Bearer "+made.Key); code != http.StatusOK ||
		answer["stdout"] != "in\n" {
		t.Errorf("with the key: %d %v", code, answer)
	}
}

// TestServeRefuses lists bad starts of serve, and their errors.
func TestServeRefuses(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	bad := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(bad, []byte("alice fhx_plain_secret_that_is_not_hashed_at_all\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, want string
		args       []string
	}{
		{"port in use", "another program listens there", []string{"--listen", taken.Addr().String()}},
		{"open to others without a key", "no API key", []string{"--listen", "0.0.0.0:0"}},
		{"no address", "is not an address", []string{"--listen", "everywhere"}},
		{"a path that is taken", "is not a socket of yours", []string{"--listen", "unix:" + bad}},
		{"plain key", "not a name and sha256:", []string{"--api-key-file", bad}},
		{"no domain", "is not a domain name", []string{"--listen", "127.0.0.1:0", "--domain", "a_b"}},
		{"a certificate without its key", "needs its key", []string{"--listen", "127.0.0.1:0", "--tls-cert", bad}},
		{"no certificate", "--tls-cert", []string{"--listen", "127.0.0.1:0", "--tls-cert", bad, "--tls-key", bad}},
		{"missing keys", "no such file", []string{"--api-key-file", bad + "x"}},
		{"unknown backend", "is not one of", []string{"--listen", "127.0.0.1:0", "--backend", "moon"}},
		{"negative slots", "slots", []string{"--listen", "127.0.0.1:0", "--slots", "-1"}},
		{"no slots", "--slots: must be at least 1", []string{"--slots", "0"}},
		{"no slots for a key", "--slots-per-key: must be at least 1", []string{"--slots-per-key", "0"}},
		{"words for slots", `error: --slots: "x" is not a whole number`, []string{"--slots", "x"}},
		{"words for a time", `error: --queue-timeout: "x" is not a duration`, []string{"--queue-timeout", "x"}},
		{"a default over its maximum", "the default of 10s is over the maximum of 5s", []string{"--listen",
			"127.0.0.1:0",
			"--timeout", "10s", "--max-timeout", "5s"}},
		{"a word too many", `"now" is one word too many`, []string{"now"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var errs bytes.Buffer
			m := testApp(t).Main
			m.Stderr = &errs
			if code := m.Run(t.Context(), append([]string{"serve", "--state-dir", t.TempDir(), "--no-local-socket"},
				tt.args...)); code != exitFailure {
				t.Errorf("exit code %d", code)
			}
			if !strings.Contains(errs.String(), tt.want) {
				t.Errorf("it said %q, not %q", errs.String(), tt.want)
			}
		})
	}
}

// TestServeBoundsOutput: answers of gigabytes require the operator's permission.
func TestServeBoundsOutput(t *testing.T) {
	s := startServer(t)
	body := `{"language":"bash","code":"echo hi","limits":{"output_kib":16385}}`
	if code, answer := s.post(t, "/v1/run", body); code != 400 {
		t.Errorf("%d %v", code, answer)
	}
}

// TestServeMaxima: a server has a default maximum for every limit, and reports it.
func TestServeMaxima(t *testing.T) {
	most := settings.Maxima(capacity.Host(), engine.DefaultSlots())
	s := startServer(t, "--allow-unenforced", "memory", "--max-cpus", "0.5", "--output-limit", "32MiB")
	told := func(name sandbox.LimitName) string { return sandbox.FormatLimit(name, most.Get(name)) }
	for limit, allowed := range map[string]string{
		`"memory_mib":16777216`: told(sandbox.LimitMemory),
		`"disk_mib":16777216`:   told(sandbox.LimitDisk),
		`"pids":1048576`:        told(sandbox.LimitPids),
		`"inodes":1073741824`:   told(sandbox.LimitInodes),
		`"open_files":1048576`:  told(sandbox.LimitOpenFiles),
		`"timeout_s":86400`:     "1h",
		`"cpus":1024`:           "0.5", // named, as is the default of the next
		`"output_kib":1048576`:  "32MiB",
	} {
		code, answer := s.post(t, "/v1/run", `{"language":"bash","code":"true","limits":{`+limit+`}}`)
		if detail := fmt.Sprint(answer["detail"]); code == http.StatusOK || !strings.Contains(detail,
			"over the server's maximum of "+allowed) {
			t.Errorf("%s: %d %s", limit, code, detail)
		}
	}
}

// TestSharesOfKeys: one of several clients gets all slots only if the operator permits it.
func TestSharesOfKeys(t *testing.T) {
	alice, bob := httpd.Key{Name: "alice"}, httpd.Key{Name: "bob"}
	for _, test := range []struct {
		name         string
		keys         []httpd.Key
		flags        [4]int // --slots, --queue, --slots-per-key, --queue-per-key
		slots, queue int    // 0 is all
	}{
		{"nobody", nil, [4]int{5, 9}, 0, 0},
		{"one, who has a new key", []httpd.Key{alice, alice}, [4]int{5, 9}, 0, 0},
		{"two", []httpd.Key{alice, bob}, [4]int{5, 9}, 3, 5},
		{"two, as is said", []httpd.Key{alice, bob}, [4]int{5, 9, 4, 1}, 4, 1},
	} {
		config := engine.Config{Slots: test.flags[0], Queue: test.flags[1]}
		config.OwnerSlots, config.OwnerQueue = test.flags[2], test.flags[3]
		if bound(&config, test.keys); config.OwnerSlots != test.slots || config.OwnerQueue != test.queue {
			t.Errorf("%s: %d slots and %d places for one, want %d and %d", test.name, config.OwnerSlots,
				config.OwnerQueue,
				test.slots, test.queue)
		}
	}
}

// TestServeLiving: a server has exclusive use of its state folder, and a local socket unless another server has it.
func TestServeLiving(t *testing.T) {
	state, run := t.TempDir(), t.TempDir()
	if err := errors.Join(os.Chmod(state, 0o700), os.Chmod(run, 0o700)); err != nil {
		t.Fatal(err)
	}
	keys := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(keys, []byte("alice sha256:"+strings.Repeat("0", 64)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := startServer(t, "--state-dir", state, "--api-key-file", keys, "--sandboxes", "1")
	if code, _ := s.post(t, "/v1/sandboxes", "{"+weaker+"}"); code != 401 {
		t.Errorf("without a key: %d", code)
	}
	a := testApp(t)
	if _, err := a.openState(t.Context(), state); sandbox.KindOf(err) != sandbox.Busy ||
		!strings.Contains(sandbox.FixOf(err), "stop the other server") {
		t.Errorf("a second server on the same state: %v", err)
	}
	s.stop(t)
	s.exit <- 0 // for the end of the test
	kept, err := a.openState(t.Context(), state)
	if err != nil {
		t.Fatal(err)
	}
	if err := kept.Close(); err != nil || filepath.Dir(kept.logs) != state {
		t.Errorf("%s, %v", kept.logs, err)
	}

	first := a.listenLocal(&serveFlags{}, run)
	if first == nil {
		t.Fatal("there is no local socket")
	}
	if info, err := os.Stat(filepath.Join(run, localSocket)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if second := a.listenLocal(&serveFlags{}, run); second != nil {
		t.Error("a living socket was replaced")
	}
	if closed := a.listenLocal(&serveFlags{door: doorFlags{noLocalSocket: true}}, run); closed != nil {
		t.Error("it listens against --no-local-socket")
	}
	first.Close()
}
