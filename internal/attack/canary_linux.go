package attack

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

	"github.com/fumehood-dev/fumehood/sandbox"
)

// Canaries are planted on the host for attacks to find. No output may contain them.
type Canaries struct {
	Secret string            // in all planted content; the oracle searches all output for it
	Facts  map[string]string // values that identify this host, by name

	marker  string   // in all planted names
	places  []string // folders
	files   []string // one in each, world-readable
	sockets []string // unix sockets with a path
	tcp     []string // addresses
	own     []string // addresses of this host's interfaces, and broadcast addresses

	hits    atomic.Int64 // connections and datagrams that arrived
	mu      sync.Mutex   // guards last
	last    string
	closers []func() error
	serving sync.WaitGroup
	segment int32 // key of a System V segment
}

// envSecret is a variable of this process's environment that holds the secret.
const envSecret = "SANDBOX_API_KEY"

// plantedIn are the folders that get a planted place each, if this user may write to them.
var plantedIn = []string{"/tmp", "/root", "/home", "/var/tmp", "/run", "/var/lib"}

// Plant makes canaries, after removing those of killed processes. The caller closes them.
func Plant() (_ *Canaries, err error) {
	sweepCanaries(plantedIn)
	c := &Canaries{marker: canaryPrefix + strings.ToLower(rand.Text()[:10]), Secret: "canary" + rand.Text(),
		Facts: hostFacts()}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	if err := c.setEnvironment(); err != nil {
		return nil, err
	}
	for _, top := range plantedIn {
		if err := c.plantPlace(top); err != nil {
			return nil, err
		}
	}
	if len(c.places) == 0 {
		return nil, &sandbox.Error{Kind: sandbox.Unsupported, Op: "plant canaries",
			Msg: "none of " + strings.Join(plantedIn, ", ") + " can be written to"}
	}
	// Ordinary processes can reach those below /tmp, so they come first.
	slices.SortStableFunc(c.places, func(a, b string) int { return tmpFirst(a) - tmpFirst(b) })
	slices.SortStableFunc(c.files, func(a, b string) int { return tmpFirst(a) - tmpFirst(b) })
	socket := filepath.Join(c.places[0], "s")
	if err := errors.Join(c.listenUnix(socket), os.Chmod(socket, 0o777), c.listenUnix("@"+c.marker)); err != nil {
		return nil, err
	}
	c.sockets = append(c.sockets, socket)
	own := rand.Text() // an address that nothing else connects to; others may still use an old port of 127.0.0.1
	for _, address := range []string{fmt.Sprintf("127.%d.%d.1:0", own[0], own[1]), "[::1]:0"} {
		c.listenIP(address)
	}
	if len(c.tcp) == 0 {
		return nil, &sandbox.Error{Kind: sandbox.Unsupported, Op: "plant canaries",
			Msg: "nothing can listen on loopback"}
	}
	c.listenOwn()
	return c, c.shareSegment()
}

// setEnvironment puts the secret where code that inherits this environment finds it.
func (c *Canaries) setEnvironment() error {
	before, was := os.LookupEnv(envSecret)
	c.closers = append(c.closers, func() error {
		if was {
			return os.Setenv(envSecret, before)
		}
		return os.Unsetenv(envSecret)
	})
	return os.Setenv(envSecret, c.Secret)
}

// plantPlace makes a place, if this user may.
func (c *Canaries) plantPlace(top string) error {
	place := filepath.Join(top, c.marker)
	remove, err := makeOwn(place)
	if errors.Is(err, errNotMade) {
		return nil // an ordinary user may write to few of them, and one may link to another
	}
	if err != nil {
		return err
	}
	c.closers = append(c.closers, remove)
	c.places = append(c.places, place)
	file := filepath.Join(place, c.marker+".txt")
	c.files = append(c.files, file)
	// overrides the umask
	return errors.Join(os.WriteFile(file, []byte(c.Secret+"\n"), 0o644), os.Chmod(file, 0o644), os.Chmod(place, 0o755))
}

func tmpFirst(path string) int {
	if strings.HasPrefix(path, "/tmp/") {
		return 0
	}
	return 1
}

func (c *Canaries) listenUnix(name string) error {
	l, err := net.Listen("unix", name)
	if err != nil {
		return err
	}
	c.serve(l)
	return nil
}

func (c *Canaries) listenIP(address string) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return // a host without IPv6
	}
	c.serve(l)
	c.tcp = append(c.tcp, strings.NewReplacer("[", "", "]", "").Replace(l.Addr().String()))
	u, err := net.ListenPacket("udp", l.Addr().String())
	if err != nil {
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
			_, _ = u.WriteTo([]byte(c.Secret), from)
		}
	})
}

// serve sends the secret to each client and counts connections.
func (c *Canaries) serve(l net.Listener) {
	c.closers = append(c.closers, l.Close)
	c.serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			c.hit("a connection to %v", l.Addr())
			_, _ = conn.Write([]byte(c.Secret))
			conn.Close()
		}
	})
}

func (c *Canaries) hit(format string, args ...any) {
	c.hits.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = fmt.Sprintf(format, args...)
}

// Close removes the canaries.
func (c *Canaries) Close() error {
	var errs []error
	for _, f := range slices.Backward(c.closers) {
		errs = append(errs, f())
	}
	c.closers = nil
	c.serving.Wait()
	return errors.Join(errs...)
}

// Hits returns the number of connections and datagrams that arrived.
func (c *Canaries) Hits() int64 { return c.hits.Load() }

// Marker returns the common part of all planted names.
func (c *Canaries) Marker() string { return c.marker }

// intact describes a change in the places, or returns "".
func (c *Canaries) intact() string {
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
		if err != nil || readErr != nil || string(text) != c.Secret+"\n" || info.Mode() != 0o644 ||
			info.Sys().(*syscall.Stat_t).Uid != uint32(os.Geteuid()) || info.Sys().(*syscall.Stat_t).Nlink != 1 {
			return fmt.Sprintf("%s was changed: %v %v %v", c.files[i], info, err, readErr)
		}
	}
	return ""
}

// Found names the secrets and facts in the text.
func (c *Canaries) Found(text []byte) string {
	if strings.Contains(string(text), c.Secret) {
		return "the canary"
	}
	for _, name := range slices.Sorted(maps.Keys(c.Facts)) {
		if strings.Contains(string(text), c.Facts[name]) {
			return "the host's " + name
		}
	}
	return ""
}

// factName is the fact that S06 checks even if it is too short to search for.
const factName = "name"

// shortFact is the length below which a fact could match by chance. A word without a digit could, too.
const shortFact = 12

// hostFacts returns values that identify this host.
func hostFacts() map[string]string {
	facts := map[string]string{}
	add := func(name, value string) {
		if value = strings.TrimSpace(value); len(value) >= shortFact && strings.ContainsAny(value, "0123456789") {
			facts[name] = value
		}
	}
	name, _ := os.Hostname()
	add(factName, name)
	for what, file := range map[string]string{"machine id": "/etc/machine-id", "command line": "/proc/cmdline",
		"product id": "/sys/class/dmi/id/product_uuid",
		"boot id":    "/proc/sys/kernel/random/boot_id"} {
		text, _ := os.ReadFile(file)
		add(what, string(text))
	}
	return facts
}

// Parameters returns the places of the canaries as variables for probes, without their content.
func (c *Canaries) Parameters(nonce string) []string {
	p := []string{
		"MARKER=" + c.marker, "PLACES=" + strings.Join(c.places, ":"), "FILES=" + strings.Join(c.files, ":"),
		"SOCKETS=" + strings.Join(c.sockets, ":"), "ABSTRACT=" + c.marker, "LISTENERS=" + strings.Join(c.tcp, ","),
		"OWN=" + strings.Join(c.own, ","),
		"KEY=" + strconv.Itoa(int(c.segment)), "NONCE=" + nonce,
	}
	return p
}
