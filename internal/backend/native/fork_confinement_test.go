package native

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/sandbox"
)

//go:embed testdata/self.py
var self string

// accepted differences in what a fork sees of itself, each with its reason.
var acceptedDifferences = map[string]string{
	"proc cmdline":          "the arguments of the program were not known when the interpreter was executed, and there is no room to write them to",
	"proc environ":          "the same; os.environ and the environment of C are the program's own",
	"stat flags":            "the kernel notes that the process has executed nothing since it was forked (PF_FORKNOEXEC)",
	"gc frozen":             "what the zygote had made is never looked at by the collector, so that it stays shared",
	"atexit":                "modules that the zygote had are not taken apart at the end, which would copy their memory",
	"owner of descriptor 1": "the pipe was made by the server, whom the sandbox has no id for; neither way may the program open it anew",
	"owner of descriptor 2": "as descriptor 1",
}

// TestForkSeesWhatAStartSees has one program examine itself in a fork and in a new interpreter.
func TestForkSeesWhatAStartSees(t *testing.T) {
	for _, c := range []struct {
		name   string
		server func(t *testing.T) // what is odd about the server
		spec   func(t *testing.T) sandbox.Spec
	}{
		{"an ordinary server", func(*testing.T) {}, nil},
		{"a sandbox with packages", func(*testing.T) {}, layerSpec},
		{"a server with a mask and limits of its own", func(t *testing.T) {
			old := syscall.Umask(0o077)
			t.Cleanup(func() { syscall.Umask(old) })
			change(t, unix.RLIMIT_STACK, 4<<20)
			change(t, unix.RLIMIT_NOFILE, 500)
			change(t, unix.RLIMIT_DATA, 2<<30)
		}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.server(t)
			request := python3(self)
			request.Args, request.Env = []string{"a", "b c", ""}, []string{"X=1", "Y=", "Z=a=b"}
			started, forked := cold(t), warmed(t)
			if c.spec != nil {
				started.spec = c.spec(t)
				forked.spec = started.spec
			}
			start, fork := sight(t, started.alone(request)), sight(t, forked.alone(request))
			compareSights(t, start, fork, acceptedDifferences)
		})
	}
}

// TestParkedSeesWhatAStartSees does so in an interpreter that waited in its sandbox.
func TestParkedSeesWhatAStartSees(t *testing.T) {
	for name, spec := range map[string]func(t *testing.T) sandbox.Spec{
		"a sandbox":               func(*testing.T) sandbox.Spec { return sandbox.Spec{} },
		"a sandbox with packages": layerSpec,
	} {
		t.Run(name, func(t *testing.T) {
			request := python3(self)
			request.Args, request.Env = []string{"a", "b c", ""}, []string{"X=1", "Y=", "Z=a=b"}
			started, parked := cold(t), rested(t)
			limits := parked.spec.Limits
			parked.spec = spec(t)
			parked.spec.Limits = limits
			started.spec = parked.spec
			start, other := sight(t, started.alone(request)), sight(t, parked.waited(request))
			compareSights(t, start, other, map[string]string{
				"proc cmdline": acceptedDifferences["proc cmdline"],
				"proc environ": acceptedDifferences["proc environ"],
			})
		})
	}
}

// compareSights has a program examine itself in a new interpreter and in one that waited.
func compareSights(t *testing.T, start, other map[string]any, accepted map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(start)) {
		same := reflect.DeepEqual(start[name], other[name])
		if reason := accepted[name]; same != (reason == "") {
			t.Errorf("%s: started %v, waited %v (%s)", name, start[name], other[name], reason)
		}
	}
	if len(start) != len(other) || len(start) < 150 {
		t.Errorf("a new interpreter says %d things of itself, the other %d", len(start), len(other))
	}
}

// change sets another soft limit of this process during a test.
func change(t *testing.T, resource int, soft uint64) {
	t.Helper()
	var old unix.Rlimit
	if err := unix.Prlimit(0, resource, nil, &old); err != nil {
		t.Fatal(err)
	}
	if err := unix.Prlimit(0, resource, &unix.Rlimit{Cur: soft, Max: old.Max}, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Prlimit(0, resource, &old, nil); err != nil {
			t.Error(err)
		}
	})
}

func sight(t *testing.T, result *sandbox.Result) (seen map[string]any) {
	t.Helper()
	if err := json.Unmarshal(result.Stdout.Head, &seen); err != nil {
		t.Fatalf("%v; %s, %s, %s", err, result.Status, result.Stdout.Head, result.Stderr.Head)
	}
	return seen
}

// TestForkAsTheHostSeesIt compares the process's namespaces and control groups, from outside, with those of the guest
// and the host.
func TestForkAsTheHostSeesIt(t *testing.T) {
	start, fork := fromOutside(cold(t)), fromOutside(warmed(t))
	if !maps.Equal(start, fork) {
		t.Errorf("started %v\nforked %v", start, fork)
	}
	for _, kind := range []string{"ipc", "mnt", "net", "pid", "pid_for_children", "user", "uts"} {
		if fork["ns "+kind] != "the guest's" {
			t.Errorf("the %s namespace of a fork is %s", kind, fork["ns "+kind])
		}
	}
}

// fromOutside runs a program and reports its relation to its guest and to this process.
func fromOutside(h *house) map[string]string {
	h.Helper()
	seen := map[string]string{}
	during(h, "import time; print('up', flush=True); time.sleep(600)", func(guest, program int) {
		kinds, _ := os.ReadDir("/proc/self/ns")
		for _, k := range kinds {
			link := func(pid int) string {
				to, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", pid, k.Name()))
				if err != nil {
					h.Error(err)
				}
				return to
			}
			seen["ns "+k.Name()] = "its own"
			if k.Name() == "cgroup" && link(program) != link(os.Getpid()) {
				continue // what an ordinary process has is made by the guest for all of them, and each fork makes one
			}
			switch link(program) {
			case link(os.Getpid()):
				seen["ns "+k.Name()] = "the host's"
			case link(guest):
				seen["ns "+k.Name()] = "the guest's"
			}
		}
		for _, file := range []string{"cgroup", "oom_score_adj"} {
			ours, theirs := read(h, guest, file), read(h, program, file)
			seen[file] = theirs
			if file == "cgroup" && ours == theirs {
				seen[file] = "the guest's"
			}
		}
		for _, id := range strings.Fields(line(read(h, program, "status"), "Uid:") + line(read(h, program, "status"),
			"Gid:")) {
			// The first three are the guest's ids; the fourth, of one thread, may be the one with which it last read
			// /proc.
			if guests := strings.Fields(line(read(h, guest, "status"), "Uid:")); id == "0" ||
				slices.Contains(guests[:3], id) {
				h.Errorf("the host id of %q is %s, its guest is %q", strings.TrimSpace(read(h, program, "comm")), id,
					strings.TrimSpace(read(h, guest, "comm")))
			}
		}
		seen["depth"] = fmt.Sprint(len(strings.Fields(line(read(h, program, "status"), "NSpid:"))))
		seen["parent"] = fmt.Sprint(strings.TrimSpace(line(read(h, program, "status"), "PPid:")) == fmt.Sprint(guest))
	})
	return seen
}

func read(t testing.TB, pid int, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), file))
	if err != nil {
		t.Error(err)
	}
	return string(text)
}

func line(text, name string) string {
	_, rest, _ := strings.Cut(text, name)
	rest, _, _ = strings.Cut(rest, "\n")
	return rest
}

// TestTwoForksHaveNoSecretInCommon: two forks draw different random values.
func TestTwoForksHaveNoSecretInCommon(t *testing.T) {
	h := warmed(t)
	draw := python3(`
import json, os, random, secrets, ssl, sys, tempfile, uuid
numbers = {"random": random.random(), "SystemRandom": random.SystemRandom().random(), "urandom": os.urandom(8).hex(), "uuid4": uuid.uuid4().hex,
    "uuid1": uuid.uuid1().hex, "ssl": ssl.RAND_bytes(8).hex(), "secrets": secrets.token_hex(), "mkdtemp": tempfile.mkdtemp()}
try:
    import numpy
    numbers["numpy"] = [numpy.random.random(), numpy.random.default_rng().random()]
except ImportError:
    pass
json.dump(numbers, sys.stdout)`)
	one, other := sight(t, h.alone(draw)), sight(t, h.alone(draw))
	if len(one) < 8 {
		t.Errorf("drawn: %v", one)
	}
	for name := range one {
		if reflect.DeepEqual(one[name], other[name]) {
			t.Errorf("%s: both drew %v", name, one[name])
		}
	}
}
