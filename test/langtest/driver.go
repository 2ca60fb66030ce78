//go:build unix

package langtest

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/internal/driver"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// reportTimeout is how long a test waits for a report. It only ends tests that hang.
const reportTimeout = 60 * time.Second

// Driver is a context's driver, started as a plain process without a sandbox, in a folder and a process group of its
// own.
type Driver struct {
	Dir     string // its working directory
	Version string // as it reported when it was ready

	t        *testing.T
	cmd      *exec.Cmd
	requests *os.File
	reports  chan driver.Frame // closed at the end of the reports
	broken   error             // how the reports broke the protocol; read it after the channel is closed
	ended    chan struct{}     // closed once the process is gone
	stdout   tail
	stderr   tail
	runs     int
	aside    aside
}

// aside is the guest's part of a driver's socket for background output. It gives no new pipes.
type aside struct {
	mu   sync.Mutex
	text string
}

// serve answers messages, which package guest specifies.
func (a *aside) serve(socket *os.File) {
	const maxMessage = 32 << 10
	defer socket.Close()
	message := make([]byte, 1+maxMessage)
	for {
		n, err := socket.Read(message)
		if err != nil || n == 0 {
			return
		}
		switch message[0] {
		case 't':
			a.mu.Lock()
			a.text += string(message[1:n])
			a.mu.Unlock()
		case 'p':
			if _, err := socket.Write(message[:1]); err != nil {
				return
			}
		}
	}
}

// Background waits until the driver has written so much background output, and returns it.
func (d *Driver) Background(bytes int) string {
	d.t.Helper()
	for end := time.Now().Add(reportTimeout); ; time.Sleep(time.Millisecond) {
		d.aside.mu.Lock()
		text := d.aside.text
		d.aside.mu.Unlock()
		if len(text) >= bytes || time.Now().After(end) {
			return text
		}
	}
}

// Outcome is the outcome of one run.
type Outcome struct {
	Stdout, Stderr string
	Results        []sandbox.Value
	Error          *sandbox.Exception // nil if there was none
	Exit           int
}

// StartDriver starts the language's driver and waits until it is ready. The test's end ends it. It skips the test if
// this machine lacks the interpreter. The environment holds the language's variables and env, and otherwise only PATH,
// HOME and LANG.
func StartDriver(t *testing.T, lang sandbox.Language, env []string) *Driver {
	t.Helper()
	argv := lang.Driver.Argv(interpreter(t, lang))
	d := &Driver{Dir: t.TempDir(), t: t, reports: make(chan driver.Frame, 1024), ended: make(chan struct{})}
	in, requests := pipe(t)
	reports, out := pipe(t)
	d.requests = requests
	ends, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_SEQPACKET|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	socket, its := os.NewFile(uintptr(ends[0]), "socket"), os.NewFile(uintptr(ends[1]), "socket")
	d.stdout.file, d.stderr.file = output(t), output(t)

	d.cmd = exec.Command(argv[0], argv[1:]...)
	d.cmd.Dir = d.Dir
	d.cmd.Env = append([]string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + d.Dir, "LANG=C.UTF-8"},
		lang.Driver.Env...)
	d.cmd.Env = append(d.cmd.Env, env...)
	d.cmd.Stdout, d.cmd.Stderr, d.cmd.ExtraFiles = d.stdout.file, d.stderr.file, []*os.File{in, out, its}
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	in.Close()
	out.Close()
	its.Close()
	go d.aside.serve(socket)
	go d.read(reports)
	go func() { _ = d.cmd.Wait(); close(d.ended) }()
	t.Cleanup(d.close)

	ready, ok := d.report()
	if !ok || ready.Kind != driver.Ready || len(ready.Fields) != 1 {
		t.Fatalf("the first report is %v, not ready: %s", ready, d.stderr.next(t))
	}
	d.Version = string(ready.Fields[0])
	return d
}

// Run runs code and returns the outcome.
func (d *Driver) Run(code string) Outcome {
	d.t.Helper()
	d.Start(code)
	return d.Wait()
}

// Start sends code to the driver. Wait must follow.
func (d *Driver) Start(code string) {
	d.t.Helper()
	d.runs++
	d.Send(driver.Run, strconv.Itoa(d.runs), code)
}

// Send writes one request.
func (d *Driver) Send(kind driver.Kind, fields ...string) {
	d.t.Helper()
	f := driver.Frame{Kind: kind}
	for _, field := range fields {
		f.Fields = append(f.Fields, []byte(field))
	}
	if _, err := d.requests.Write(f.Append(nil)); err != nil {
		d.t.Fatalf("the driver takes no requests: %v; %s", err, d.stderr.next(d.t))
	}
}

// Wait returns the outcome of the run that Start began. A report of another run fails the test.
func (d *Driver) Wait() Outcome {
	d.t.Helper()
	var o Outcome
	for id := strconv.Itoa(d.runs); ; {
		f, ok := d.report()
		if !ok {
			d.t.Fatalf("the driver ended (%v, %v) in run %s: %s", d.broken, d.state(), id, d.stderr.next(d.t))
		}
		if len(f.Fields) == 0 || string(f.Fields[0]) != id {
			d.t.Fatalf("a report %s %.80q in run %s", f.Kind, f.Fields, id)
		}
		fields := f.Fields[1:]
		switch {
		case f.Kind == driver.Result && len(fields)%2 == 1:
			shown := sandbox.Value{Main: string(fields[0]) == "1"}
			for i := 1; i < len(fields); i += 2 {
				shown.Forms = append(shown.Forms, sandbox.Form{Type: string(fields[i]), Data: fields[i+1]})
			}
			o.Results = append(o.Results, shown)
		case f.Kind == driver.Exception && len(fields) == 3 && o.Error == nil:
			o.Error = &sandbox.Exception{Name: string(fields[0]), Value: string(fields[1]),
				Traceback: string(fields[2])}
		case f.Kind == driver.Done && len(fields) == 1:
			exit, err := strconv.Atoi(string(fields[0]))
			if err != nil {
				d.t.Fatal(err)
			}
			o.Exit, o.Stdout, o.Stderr = exit, d.stdout.next(d.t), d.stderr.next(d.t)
			return o
		default:
			d.t.Fatalf("a report %s %.80q does not fit", f.Kind, f.Fields)
		}
	}
}

// Complete asks for the names that fit at the cursor.
func (d *Driver) Complete(code string, cursor int) (start int, names []string) {
	d.t.Helper()
	d.Send(driver.Complete, "c", code, strconv.Itoa(cursor))
	f, ok := d.report()
	if !ok || f.Kind != driver.Matches || len(f.Fields) < 2 || string(f.Fields[0]) != "c" {
		d.t.Fatalf("complete answered %s %q", f.Kind, f.Fields)
	}
	start, err := strconv.Atoi(string(f.Fields[1]))
	if err != nil {
		d.t.Fatal(err)
	}
	for _, name := range f.Fields[2:] {
		names = append(names, string(name))
	}
	return start, names
}

// Interrupt sends SIGINT to the driver's process group.
func (d *Driver) Interrupt() {
	d.t.Helper()
	if err := syscall.Kill(-d.cmd.Process.Pid, syscall.SIGINT); err != nil {
		d.t.Fatal(err)
	}
}

// WaitInterrupted interrupts the run until it ends, and returns what it did. It repeats the signal, as an interpreter
// whose handler only takes a note may miss one that comes just before a system call that blocks.
func (d *Driver) WaitInterrupted() Outcome {
	d.t.Helper()
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			syscall.Kill(-d.cmd.Process.Pid, syscall.SIGINT)
			select {
			case <-done:
				return
			case <-time.After(500 * time.Millisecond):
			}
		}
	}()
	defer func() { close(done); <-stopped }()
	return d.Wait()
}

// Printed waits until the run has written at least n bytes to stdout. They stay for Wait.
func (d *Driver) Printed(n int64) {
	d.t.Helper()
	for end := time.Now().Add(reportTimeout); ; time.Sleep(time.Millisecond) {
		if info, err := d.stdout.file.Stat(); err != nil || info.Size()-d.stdout.at >= n {
			return
		}
		if time.Now().After(end) {
			d.t.Fatalf("the run did not print %d bytes", n)
		}
	}
}

// Pid is the id of the driver's process.
func (d *Driver) Pid() int { return d.cmd.Process.Pid }

// Hangup ends the requests.
func (d *Driver) Hangup() { d.requests.Close() }

// Ended waits for the end of the driver's process. Reports before it fail the test.
func (d *Driver) Ended() *os.ProcessState {
	d.t.Helper()
	if f, ok := d.report(); ok {
		d.t.Fatalf("a report %s %.80q; the driver should end", f.Kind, f.Fields)
	}
	return d.state()
}

// state waits for the end of the driver's process.
func (d *Driver) state() *os.ProcessState {
	d.t.Helper()
	select {
	case <-d.ended:
	case <-time.After(reportTimeout):
		d.t.Fatal("the driver does not end")
	}
	return d.cmd.ProcessState
}

func (d *Driver) report() (driver.Frame, bool) {
	d.t.Helper()
	select {
	case f, ok := <-d.reports:
		return f, ok
	case <-time.After(reportTimeout):
		d.t.Fatalf("no report; stdout %q, stderr %q", d.stdout.next(d.t), d.stderr.next(d.t))
		return driver.Frame{}, false
	}
}

// read parses the reports until their end.
func (d *Driver) read(reports *os.File) {
	defer reports.Close()
	defer close(d.reports)
	var p driver.Parser
	b := make([]byte, 64<<10)
	for {
		n, err := reports.Read(b)
		if d.broken = p.Feed(b[:n], func(f driver.Frame) error { d.reports <- f; return nil }); d.broken != nil ||
			err != nil {
			return
		}
	}
}

// close ends the driver's process group, children of the code included.
func (d *Driver) close() {
	d.requests.Close()
	if err := syscall.Kill(-d.cmd.Process.Pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		d.t.Error(err)
	}
	<-d.ended
	for range d.reports {
	}
}

// interpreter finds the language's program where a sandbox has it, or else on PATH.
func interpreter(t *testing.T, lang sandbox.Language) string {
	t.Helper()
	for _, dir := range []string{"/usr/bin/", "/bin/", ""} {
		for _, program := range lang.Programs {
			if path, err := exec.LookPath(dir + program); err == nil {
				return path
			}
		}
	}
	t.Skipf("this machine has no %v", lang.Programs)
	return ""
}

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	return r, w
}

// tail reads a growing file. Unlike in a pipe, what was written before a report is there when the report is.
type tail struct {
	file *os.File
	at   int64
}

func output(t *testing.T) *os.File {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(t.TempDir(), "output"), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// next returns the bytes since the last call.
func (o *tail) next(t *testing.T) string {
	t.Helper()
	b, err := io.ReadAll(io.NewSectionReader(o.file, o.at, 1<<40))
	if err != nil {
		t.Fatal(err)
	}
	o.at += int64(len(b))
	return string(b)
}
