package backendtest

import (
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// canaries are what is planted on the host for attacks to find. None may ever be heard of again.
type canaries struct {
	marker string // in the names of all that is planted
	secret string // in the content of all that is planted; the oracle looks for it in all output
	facts  map[string]string

	places  []string // folders
	files   []string // one in each, world-readable
	sockets []string // unix sockets with a path
	tcp     []string // addresses

	hits    atomic.Int64 // connections and datagrams that arrived
	mu      sync.Mutex   // guards last
	last    string
	closers []func() error
	serving sync.WaitGroup
	segment int32 // key of a System V segment
}

// envSecret is a variable of the server's environment with the secret in it.
const envSecret = "SANDBOX_API_KEY"

// plantedIn are the folders that get a place each, where this user may write to them.
var plantedIn = []string{"/tmp", "/root", "/home", "/var/tmp", "/run", "/var/lib"}

const canaryPrefix = "glovebox-canary-"

// sweepCanaries takes away what tests that were killed have left: canaries whose socket no process has. To connect and see would
// count as a hit of a test that lives.
func sweepCanaries() {
	sockets, err := os.ReadFile("/proc/net/unix")
	left, _ := filepath.Glob("/tmp/" + canaryPrefix + "*")
	for _, place := range left {
		info, statErr := os.Stat(place)
		if err != nil || statErr != nil || time.Since(info.ModTime()) < time.Minute || strings.Contains(string(sockets), place+"/s") {
			continue
		}
		for _, top := range plantedIn {
			_ = os.RemoveAll(filepath.Join(top, filepath.Base(place)))
		}
	}
}

// plant makes the canaries, and takes them away at the end of the test.
func plant(t *testing.T) *canaries {
	t.Helper()
	sweepCanaries()
	c := &canaries{marker: canaryPrefix + strings.ToLower(rand.Text()[:10]), secret: canary(), facts: hostFacts()}
	t.Cleanup(func() { c.close(t) })
	t.Setenv(envSecret, c.secret)
	for _, top := range plantedIn {
		place := filepath.Join(top, c.marker)
		if slices.Contains(c.places, place) || os.Mkdir(place, 0o755) != nil {
			continue // an ordinary user may write to a few of them
		}
		c.places = append(c.places, place)
		file := filepath.Join(place, c.marker+".txt")
		if err := os.WriteFile(file, []byte(c.secret+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		c.files = append(c.files, file)
	}
	// An ordinary process reaches these first.
	slices.SortStableFunc(c.places, func(a, b string) int { return tmpFirst(a) - tmpFirst(b) })
	slices.SortStableFunc(c.files, func(a, b string) int { return tmpFirst(a) - tmpFirst(b) })
	for _, place := range c.places[:1] {
		c.listenUnix(t, filepath.Join(place, "s"))
		if err := os.Chmod(filepath.Join(place, "s"), 0o777); err != nil {
			t.Fatal(err)
		}
		c.sockets = append(c.sockets, filepath.Join(place, "s"))
	}
	c.listenUnix(t, "@"+c.marker)
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		c.listenIP(t, address)
	}
	if err := c.shareSegment(); err != nil {
		t.Fatalf("share a segment: %v", err)
	}
	return c
}

func tmpFirst(path string) int {
	if strings.HasPrefix(path, "/tmp/") {
		return 0
	}
	return 1
}

func (c *canaries) listenUnix(t *testing.T, name string) {
	t.Helper()
	l, err := net.Listen("unix", name)
	if err != nil {
		t.Fatal(err)
	}
	c.serve(l)
}

func (c *canaries) listenIP(t *testing.T, address string) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Logf("no listener on %s: %v", address, err) // a host without IPv6
		return
	}
	c.serve(l)
	c.tcp = append(c.tcp, strings.NewReplacer("[", "", "]", "").Replace(l.Addr().String()))
	u, err := net.ListenPacket("udp", l.Addr().String())
	if err != nil {
		t.Logf("no datagrams on %s: %v", l.Addr(), err)
		return
	}
	c.closers = append(c.closers, u.Close)
	c.serving.Go(func() {
		var buf [64]byte
		for {
			_, from, err := u.ReadFrom(buf[:])
			if err != nil {
				return
			}
			c.hit("a datagram from %v", from)
			_, _ = u.WriteTo([]byte(c.secret), from)
		}
	})
}

// serve hands the secret to whoever connects, and counts.
func (c *canaries) serve(l net.Listener) {
	c.closers = append(c.closers, l.Close)
	c.serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			c.hit("a connection to %v", l.Addr())
			_, _ = conn.Write([]byte(c.secret))
			conn.Close()
		}
	})
}

func (c *canaries) hit(format string, args ...any) {
	c.hits.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = fmt.Sprintf(format, args...)
}

// shareSegment leaves a world-readable System V segment with the secret in it.
func (c *canaries) shareSegment() error {
	var b [4]byte
	rand.Read(b[:])
	c.segment = int32(b[0]) | int32(b[1])<<8 | int32(b[2])<<16 | 1<<24
	id, err := unix.SysvShmGet(int(c.segment), 4096, unix.IPC_CREAT|unix.IPC_EXCL|0o666)
	if err != nil {
		return err
	}
	c.closers = append(c.closers, func() error {
		_, err := unix.SysvShmCtl(id, unix.IPC_RMID, nil)
		return err
	})
	mem, err := unix.SysvShmAttach(id, 0, 0)
	if err != nil {
		return err
	}
	copy(mem, c.secret)
	return unix.SysvShmDetach(mem)
}

func (c *canaries) close(t *testing.T) {
	var errs []error
	for _, f := range c.closers {
		errs = append(errs, f())
	}
	for _, p := range c.places {
		errs = append(errs, os.RemoveAll(p))
	}
	c.serving.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Errorf("take the canaries away: %v", err)
	}
}

// intact says what has changed in the places, "" where nothing has.
func (c *canaries) intact() string {
	for i, place := range c.places {
		names, err := os.ReadDir(place)
		if err != nil {
			return err.Error()
		}
		for _, n := range names {
			if n.Name() != c.marker+".txt" && n.Name() != "s" {
				return "there is " + filepath.Join(place, n.Name())
			}
		}
		info, err := os.Lstat(c.files[i])
		text, readErr := os.ReadFile(c.files[i])
		if err != nil || readErr != nil || string(text) != c.secret+"\n" || info.Mode() != 0o644 ||
			info.Sys().(*syscall.Stat_t).Uid != uint32(os.Geteuid()) || info.Sys().(*syscall.Stat_t).Nlink != 1 {
			return fmt.Sprintf("%s was changed: %v %v %v", c.files[i], info, err, readErr)
		}
	}
	return ""
}

// found says which of the secrets and facts is in the text.
func (c *canaries) found(text []byte) string {
	if strings.Contains(string(text), c.secret) {
		return "the canary"
	}
	for _, name := range slices.Sorted(maps.Keys(c.facts)) {
		if strings.Contains(string(text), c.facts[name]) {
			return "the host's " + name
		}
	}
	return ""
}

// shortFact is the length below which a fact would be found by chance.
const shortFact = 8

// hostFacts are what tells this host from others.
func hostFacts() map[string]string {
	facts := map[string]string{}
	add := func(name, value string) {
		if value = strings.TrimSpace(value); len(value) >= shortFact {
			facts[name] = value
		}
	}
	name, _ := os.Hostname()
	add("name", name)
	for what, file := range map[string]string{"machine id": "/etc/machine-id", "command line": "/proc/cmdline", "product id": "/sys/class/dmi/id/product_uuid"} {
		text, _ := os.ReadFile(file)
		add(what, string(text))
	}
	return facts
}

// parameters are what probes are told: where the canaries are, not what is in them.
func (c *canaries) parameters(nonce string) []string {
	p := []string{
		"MARKER=" + c.marker, "PLACES=" + strings.Join(c.places, ":"), "FILES=" + strings.Join(c.files, ":"),
		"SOCKETS=" + strings.Join(c.sockets, ":"), "ABSTRACT=" + c.marker, "LISTENERS=" + strings.Join(c.tcp, ","),
		"KEY=" + strconv.Itoa(int(c.segment)), "NONCE=" + nonce,
	}
	return p
}
