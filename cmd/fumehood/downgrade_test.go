package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/internal/backend/docker"
	"github.com/fumehood-dev/fumehood/internal/backend/gvisor"
	"github.com/fumehood-dev/fumehood/internal/backend/native"
	"github.com/fumehood-dev/fumehood/internal/libexec"
	"github.com/fumehood-dev/fumehood/test/backendtest"
)

// downgrade is one way in which a host or a backend cannot enforce a request.
type downgrade struct {
	name     string
	backends []string
	lack     []string // what the host is assumed to lack
	flags    []string // of run
	nobody   bool     // run as a user without subordinate ids and without a session

	refused []string          // what must be waived by name; otherwise nothing runs
	warned  []string          // unnamed limits that are not enforced, with a warning
	layers  map[string]string // expected states of isolation layers
}

var (
	both        = []string{native.Name, gvisor.Name}
	nativeAlone = []string{native.Name}
	gvisorAlone = []string{gvisor.Name}
	engines     = []string{docker.Name, docker.Podman}
	podmanAlone = []string{docker.Podman}
	controllers = []string{"memory", "cpu", "pids", "cpuacct"}
)

// downgrades lists all downgrades. Answers also report what a backend always lacks.
var downgrades = []downgrade{
	{name: "nothing is lacking", backends: both},
	{name: "no control groups", backends: both, lack: controllers, refused: []string{"memory"},
		warned: []string{"cpus"}},
	{name: "no control groups, CPUs named", backends: both, lack: controllers, flags: []string{"--cpus", "1"},
		refused: []string{"memory", "cpus"}},
	{name: "no memory controller", backends: both, lack: []string{"memory"}, refused: []string{"memory"}},
	{name: "no CPU controller", backends: both, lack: []string{"cpu"}, warned: []string{"cpus"}},
	{name: "no CPU controller, CPUs named", backends: both, lack: []string{"cpu"}, flags: []string{"--cpus", "0.5"},
		refused: []string{"cpus"}},
	// RLIMIT_NPROC enforces it
	{name: "no pids controller, processes named", backends: both, lack: []string{"pids"}, flags: []string{"--pids",
		"64"}},
	{name: "disk named, and a directory of the host", backends: both, flags: []string{"--disk", "10MiB", "--workspace",
		"WORKSPACE"}, refused: []string{"disk"}},
	{name: "inodes named", backends: gvisorAlone, flags: []string{"--inodes", "1000"}, refused: []string{"inodes"}},
	{name: "inodes named, and a directory of the host", backends: both, flags: []string{"--inodes", "1000",
		"--workspace", "WORKSPACE"}, refused: []string{"inodes"}},
	{name: "disk named, and a writable mount", backends: both, flags: []string{"--disk", "10MiB", "--mount",
		"WORKSPACE:/data:rw"}, refused: []string{"disk"}},
	{name: "no Landlock", backends: nativeAlone, lack: []string{native.LackLandlock},
		layers: map[string]string{"landlock": "missing"}},
	{name: "no Landlock, and allowed commands", backends: nativeAlone, lack: []string{native.LackLandlock},
		flags:   []string{"--allow-command", "bash"},
		refused: []string{"commands"}, layers: map[string]string{"landlock": "missing"}},
	{name: "allowed commands", backends: gvisorAlone, flags: []string{"--allow-command", "bash"},
		refused: []string{"commands"}},
	{name: "all at once", backends: gvisorAlone, lack: controllers, flags: []string{"--allow-command", "bash",
		"--inodes", "1000", "--disk", "10MiB", "--workspace", "WORKSPACE"},
		refused: []string{"memory", "disk", "inodes", "commands"}, warned: []string{"cpus"}},
	{name: "nothing is lacking", backends: engines},
	{name: "no control groups", backends: engines, lack: controllers, refused: []string{"memory", "pids"},
		warned: []string{"cpus"}},
	{name: "no control groups, CPUs named", backends: engines, lack: controllers, flags: []string{"--cpus", "1"},
		refused: []string{"memory", "cpus", "pids"}},
	{name: "no memory controller", backends: engines, lack: []string{"memory"}, refused: []string{"memory"}},
	{name: "no CPU controller", backends: engines, lack: []string{"cpu"}, warned: []string{"cpus"}},
	{name: "no CPU controller, CPUs named", backends: engines, lack: []string{"cpu"}, flags: []string{"--cpus", "0.5"},
		refused: []string{"cpus"}},
	// nothing else enforces it
	{name: "no pids controller", backends: engines, lack: []string{"pids"}, refused: []string{"pids"}},
	{name: "disk named, and a directory of the host", backends: engines, flags: []string{"--disk", "10MiB",
		"--workspace", "WORKSPACE"}, refused: []string{"disk"}},
	{name: "disk named, and a writable mount", backends: engines, flags: []string{"--disk", "10MiB", "--mount",
		"WORKSPACE:/data:rw"}, refused: []string{"disk"}},
	{name: "inodes named, and a directory of the host", backends: engines, flags: []string{"--inodes", "1000",
		"--workspace", "WORKSPACE"}, refused: []string{"inodes"}},
	{name: "inodes named", backends: podmanAlone, flags: []string{"--inodes", "1000"}, refused: []string{"inodes"}},
	{name: "allowed commands", backends: engines, flags: []string{"--allow-command", "bash"},
		refused: []string{"commands"}},
	{name: "an ordinary user", backends: nativeAlone, nobody: true, refused: []string{"memory"},
		warned: []string{"cpus"}, layers: map[string]string{"host_uid": "partial"}},
	{name: "an ordinary user", backends: gvisorAlone, nobody: true, refused: []string{"memory"},
		warned: []string{"cpus"}},
	{name: "an ordinary user, CPUs named", backends: nativeAlone, nobody: true, flags: []string{"--cpus", "1"},
		refused: []string{"memory", "cpus"},
		layers:  map[string]string{"host_uid": "partial"}},
}

// quick are the downgrades on native that every change tests.
var quick = []string{"nothing is lacking", "no control groups", "no Landlock, and allowed commands"}

// always are the differences from the defaults that every run on a backend has.
var always = map[string][]string{gvisor.Name: {"inodes"}, docker.Podman: {"inodes"}}

// TestDowngrades forces every downgrade. Without waivers nothing runs, and the refusal names all required waivers. With
// waivers the code runs, and every form of the answer reports them.
func TestDowngrades(t *testing.T) {
	h := &host{t: t, programs: libexecDir(t)}
	if !isReady(t) {
		h.base = []string{"memory"}
	}
	for _, d := range downgrades {
		for _, backend := range d.backends {
			t.Run(backend+"/"+d.name, func(t *testing.T) {
				if testing.Short() && (backend != gvisor.Name || d.name != "all at once") &&
					(backend != native.Name || !slices.Contains(quick, d.name)) {
					t.Skip("make check: a container or a kernel for each of many runs")
				}
				if (backend == gvisor.Name || d.nobody) && os.Geteuid() != 0 {
					t.Skip("SKIPPED, NOT TESTED: it needs root")
				}
				run := &forced{T: t, host: h, downgrade: d, backend: backend}
				if slices.Contains(engines, backend) {
					run.engine = backendtest.EngineHost(t, backend)
					run.flags = append(slices.Clone(d.flags), "--image", backendtest.EngineImage)
				}
				run.refusal()
				run.acceptance()
			})
		}
	}
}

// host is the host of all downgrades.
type host struct {
	t        *testing.T
	programs string
	base     []string // what this host lacks by itself
	nobodys  string   // a folder that everybody may read, with the program and its guest
}

// forced is one downgrade on one backend.
type forced struct {
	*testing.T
	*host
	downgrade
	backend   string
	engine    string // where docker or podman listens
	workspace string
}

// refusal runs without waivers, once for people and once for programs.
func (f *forced) refusal() {
	f.Helper()
	if len(f.refused) == 0 {
		return
	}
	stdout, stderr, code := f.fumehood(nil, "--json")
	var failed struct{ Kind string }
	if err := json.Unmarshal([]byte(stdout), &failed); err != nil || code != exitFailure {
		f.Fatalf("exit code %d: %s %s", code, stdout, stderr)
	}
	if want := "--allow-unenforced " + strings.Join(f.refused, ","); failed.Kind != "unsupported" ||
		!strings.Contains(stdout, want+" (for all runs") {
		f.Errorf("the refusal does not name %q: %s", want, stdout)
	}
	_, stderr, code = f.fumehood(nil)
	if code != exitFailure || !strings.Contains(stderr, "error: this host cannot enforce "+inWords(f.refused)+
		"; nothing ran\n") {
		f.Errorf("exit code %d: %s", code, stderr)
	}
	for i := range f.refused { // waiving some is not enough
		if most := slices.Delete(slices.Clone(f.refused), i, i+1); len(most) > 0 {
			if _, stderr, code = f.fumehood(most); code != exitFailure {
				f.Errorf("with %v waived, exit code %d: %s", most, code, stderr)
			}
		}
	}
	if left, err := os.ReadDir(f.workspace); err != nil || len(left) > 0 {
		f.Errorf("code ran: %v, %v", left, err)
	}
}

// acceptance runs with all waivers.
func (f *forced) acceptance() {
	f.Helper()
	stdout, stderr, code := f.fumehood(f.refused, "--json")
	var a api.Answer
	if err := json.Unmarshal([]byte(stdout), &a); err != nil || code != 0 || a.Stdout != "ran\n" {
		f.Fatalf("exit code %d: %s %s", code, stdout, stderr)
	}
	weaker := slices.DeleteFunc(slices.Clone(a.Policy.Effective.Unenforced),
		func(name string) bool { return f.own(name) })
	if !slices.Equal(weaker, f.refused) {
		f.Errorf("weaker: %v, want %v", weaker, f.refused)
	}
	var different []string
	for _, d := range a.Policy.Differences {
		if !f.own(d.Name) {
			different = append(different, d.Name)
		}
		if d.Requested == "" || d.Effective == "" || d.Requested == d.Effective {
			f.Errorf("%+v is no difference", d)
		}
	}
	want := slices.Concat(f.refused, f.warned, always[f.backend])
	slices.Sort(want)
	slices.Sort(different)
	if !slices.Equal(different, slices.Compact(want)) {
		f.Errorf("requested and enforced differ in %v, want %v", different, want)
	}
	if a.Policy.Backend != f.backend || a.Policy.Requested.Backend != f.backend || a.Policy.Effective.Kernel == "" {
		f.Errorf("requested %q, ran on %q with the kernel %q", a.Policy.Requested.Backend, a.Policy.Backend,
			a.Policy.Effective.Kernel)
	}
	for layer, state := range f.layers {
		if string(a.Policy.Effective.Isolation[layer]) != state {
			f.Errorf("the layer %s is %q, want %q", layer, a.Policy.Effective.Isolation[layer], state)
		}
	}
	_, stderr, code = f.fumehood(f.refused, "--verbose")
	if len(f.refused) > 0 && !strings.Contains(stderr, "warning: not enforced on this host, as allowed: "+
		strings.Join(slices.Concat(f.base, f.refused), ", ")) {
		f.Errorf("exit code %d, and no warning: %s", code, stderr)
	}
	for _, name := range slices.Concat(f.refused, f.warned) {
		if !strings.Contains(stderr, name+": requested ") {
			f.Errorf("no report of what was requested and enforced of %s: %s", name, stderr)
		}
	}
	for _, name := range f.warned {
		if !strings.Contains(stderr, "warning: no "+name+" limit is enforced on this host") {
			f.Errorf("no warning of %s: %s", name, stderr)
		}
	}
}

// own reports whether this host lacks a feature that this downgrade does not cover.
func (f *forced) own(name string) bool {
	return len(f.base) > 0 && (name == "memory" || name == "cpus") && !slices.Contains(slices.Concat(f.refused,
		f.warned), name)
}

// fumehood runs the program, in this process or as a process of an ordinary user.
func (f *forced) fumehood(accept []string, flags ...string) (stdout, stderr string, code int) {
	f.Helper()
	if f.workspace == "" {
		f.workspace = f.folder()
	}
	args := append([]string{"run", "--backend", f.backend, "-l", "bash", "-c", "echo ran; : > ran"}, flags...)
	for _, word := range f.flags {
		args = append(args, strings.ReplaceAll(word, "WORKSPACE", f.workspace))
	}
	if accept = slices.Concat(f.base, accept); len(accept) > 0 {
		args = append(args, "--allow-unenforced", strings.Join(accept, ","))
	}
	var out, errs bytes.Buffer
	if f.nobody {
		cmd := exec.Command(f.forNobody(), args...)
		cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + f.folder(), "FUMEHOOD_LIBEXEC=" + f.nobodys}
		cmd.Stdout, cmd.Stderr = &out, &errs
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		if err := cmd.Run(); cmd.ProcessState == nil {
			f.Fatal(err)
		}
		return out.String(), errs.String(), cmd.ProcessState.ExitCode()
	}
	a := testApp(f.T)
	a.Stdout, a.Stderr, a.Lack = &out, &errs, f.lack
	programs := a.LookupEnv
	a.LookupEnv = func(name string) (string, bool) {
		switch name {
		case "FUMEHOOD_LIBEXEC":
			return f.programs, true
		case "DOCKER_HOST", "CONTAINER_HOST":
			return f.engine, f.engine != ""
		}
		return programs(name)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		f.Fatal(err)
	}
	defer null.Close()
	a.Stdin = null
	code = a.Main.Run(f.Context(), args)
	return out.String(), errs.String(), code
}

// nobody is a user without subordinate ids: the kernel's own overflow id.
const nobody = 65534

// folder returns a folder that the code may write to.
func (f *forced) folder() string {
	f.Helper()
	dir, err := os.MkdirTemp("", "fumehood-downgrade-") // open to other users, which TempDir is not
	if err == nil {
		f.Cleanup(func() { _ = os.RemoveAll(dir) })
		err = os.Chmod(dir, 0o777)
	}
	if err != nil {
		f.Fatal(err)
	}
	return dir
}

// forNobody returns a copy of this program named fumehood, which everybody may execute. The programs of sandboxes are
// beside it.
func (h *host) forNobody() string {
	h.t.Helper()
	if h.nobodys != "" {
		return filepath.Join(h.nobodys, "fumehood")
	}
	dir, err := os.MkdirTemp("", "fumehood-nobody-")
	if err == nil {
		h.t.Cleanup(func() { _ = os.RemoveAll(dir) })
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		h.t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		h.t.Fatal(err)
	}
	files := map[string]func() (*os.File, error){"fumehood": func() (*os.File, error) { return os.Open(self) }}
	for _, find := range []func(libexec.Options) (libexec.Program, error){libexec.Guest, libexec.Runsc} {
		program, err := find(libexec.Options{Dir: h.programs})
		if err != nil {
			h.t.Fatal(err)
		}
		files[filepath.Base(program.Source)] = program.Open
	}
	for name, from := range files {
		in, err := from()
		if err != nil {
			h.t.Fatal(err)
		}
		out, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_WRONLY, 0o755)
		if err == nil {
			_, err = io.Copy(out, io.NewSectionReader(in, 0, 1<<30)) // whatever its offset is
		}
		if err == nil {
			err = out.Close()
		}
		in.Close()
		if err != nil {
			h.t.Fatal(err)
		}
	}
	h.nobodys = dir
	return filepath.Join(dir, "fumehood")
}
