// Package systemd speaks with the service manager that started this process (sd_notify(3), sd_listen_fds(3)). Without
// one, everything does nothing.
package systemd

import (
	"errors"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

// Environment looks up variables, like os.LookupEnv.
type Environment func(name string) (string, bool)

func (e Environment) get(name string) string {
	value, _ := e(name)
	return value
}

// Manager reports the state of this process to the service manager.
type Manager struct{ socket string }

// NewManager returns the manager that the environment names.
func NewManager(env Environment) Manager {
	socket := env.get("NOTIFY_SOCKET")
	if strings.HasPrefix(socket, "@") { // the abstract namespace (unix(7))
		socket = "\x00" + socket[1:]
	}
	return Manager{socket}
}

// Ready reports that the start, or a reload, has ended.
func (m Manager) Ready() error { return m.send("READY=1") }

// Reloading reports the begin of a reload. The time is what Type=notify-reload requires.
func (m Manager) Reloading() error {
	now, err := monotonic()
	if err != nil {
		return err
	}
	return m.send("RELOADING=1\nMONOTONIC_USEC=" + strconv.FormatInt(now.Microseconds(), 10))
}

// Stopping reports the begin of the end.
func (m Manager) Stopping() error { return m.send("STOPPING=1") }

// Alive keeps the watchdog from ending this process.
func (m Manager) Alive() error { return m.send("WATCHDOG=1") }

func (m Manager) send(state string) error {
	if m.socket == "" {
		return nil
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: m.socket, Net: "unixgram"})
	if err != nil {
		return err
	}
	_, err = conn.Write([]byte(state))
	return errors.Join(err, conn.Close())
}

// Watchdog returns how long the manager waits for Alive before it ends this process; 0 is for ever.
func Watchdog(env Environment) time.Duration {
	if pid := env.get("WATCHDOG_PID"); pid != "" && pid != strconv.Itoa(os.Getpid()) {
		return 0
	}
	n, err := strconv.ParseInt(env.get("WATCHDOG_USEC"), 10, 64)
	if err != nil || n <= 0 {
		return 0
	}
	return time.Duration(n) * time.Microsecond
}

// firstPassed is the descriptor of the first passed socket (SD_LISTEN_FDS_START).
const firstPassed = 3

// Listener returns the socket that the manager passed, or nil. Errors: there are several, or it is not a listener.
func Listener(env Environment) (net.Listener, error) {
	if env.get("LISTEN_PID") != strconv.Itoa(os.Getpid()) {
		return nil, nil
	}
	switch env.get("LISTEN_FDS") {
	case "", "0":
		return nil, nil
	case "1":
	default:
		return nil, errors.New("several sockets were passed")
	}
	f := os.NewFile(firstPassed, "passed socket")
	defer f.Close() // FileListener makes a copy, which is not inherited
	return net.FileListener(f)
}
