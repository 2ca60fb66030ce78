package backendtest

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// Restarted is a backend whose servers can be killed: their boxes have host processes that outlive them.
type Restarted struct {
	Open   func(t *testing.T, run string) sandbox.Backend // a new backend over a run folder
	Accept []string                                       // what this host cannot enforce
}

// envServer makes the test program a server. Its value is the server's life as JSON.
const envServer = "FUMEHOOD_TEST_SERVER"

// life lists the boxes that one server makes, promotes and reattaches.
type life struct {
	Run      string
	Create   []sandbox.Spec
	Promote  sandbox.ID
	Reattach []sandbox.ID
}

// lease ends a living box that a failed test leaves.
const lease = 2 * stepTimeout

// inside leaves a file and a process in a box.
const inside = `echo kept > file; setsid sleep 1000 < /dev/null > /dev/null 2>&1 & echo $! > pid; echo done`

// Restart kills servers with living boxes by SIGKILL. Another process's Reap spares the boxes; one process at a time
// owns each; they keep their files and processes; and closing them leaves nothing. The test that calls it is also the
// server.
func Restart(t *testing.T, r Restarted) {
	if order := os.Getenv(envServer); order != "" {
		r.serve(t, order)
		return
	}
	dir, err := os.MkdirTemp("", "fhr") // t.TempDir's names are too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	run := filepath.Join(dir, "run")
	kept, ended, made, oneShot, promoted, lifted := spec(), spec(), spec(), spec(), spec(), spec()
	var all []sandbox.ID
	for i, s := range []*sandbox.Spec{&kept, &ended, &made, &oneShot, &promoted, &lifted} {
		s.AllowUnenforced, s.Lifetime = r.Accept, sandbox.Lifetime{Living: i < 3, Lease: lease}
		all = append(all, s.ID)
	}
	first, second := r.Open(t, run), r.Open(t, run)
	if sandbox.HasFeature(first, sandbox.FeatureNetwork) {
		kept.Network = networkHere(t, first, kept)
	}
	short := append(builderFor(t, first), oneShot)
	all = append(all, short[0].ID)
	kill := launch(t, life{Run: run, Create: append(short, kept, promoted, ended), Promote: promoted.ID})
	refused(t, first, kept.ID, sandbox.Exists)
	kill()
	for _, b := range []sandbox.Backend{second, second, first} {
		if err := b.Reap(within(t)); err != nil {
			t.Error(err)
		}
	}
	for _, s := range short {
		refused(t, first, s.ID, sandbox.NotFound)
	}
	endsUnleased(t, first, promoted.ID)

	launch(t, life{Run: run, Reattach: []sandbox.ID{kept.ID}})() // an owner that dies too
	box := reattach(t, first, kept.ID)
	endsInside(t, first, second, ended.ID)
	refused(t, second, kept.ID, sandbox.Exists)
	still(t, box)
	linksAgain(t, box)
	for _, s := range []sandbox.Spec{made, lifted} {
		r.make(t, first, s, s.ID == lifted.ID)
	}
	if err := first.Close(); err != nil { // without closing the boxes
		t.Error(err)
	}
	if err := second.Reap(within(t)); err != nil {
		t.Error(err)
	}
	refused(t, second, ended.ID, sandbox.NotFound)
	for _, id := range []sandbox.ID{made.ID, lifted.ID} {
		box := reattach(t, second, id)
		still(t, box)
		if err := box.Close(); err != nil {
			t.Error(err)
		}
	}
	again := reattach(t, second, kept.ID)
	if !reflect.DeepEqual(again.Effective(), box.Effective()) || again.GuestKey() != box.GuestKey() {
		t.Errorf("it is %+v and was %+v", again.Effective(), box.Effective())
	}
	still(t, again)
	linksAgain(t, again)
	if err := errors.Join(again.Close(), second.Reap(within(t)), second.Close()); err != nil {
		t.Error(err)
	}
	leavesNothing(t, run, all)
}

// builderFor returns the spec of a builder, if the backend can make one here.
func builderFor(t *testing.T, b sandbox.Backend) []sandbox.Spec {
	t.Helper()
	if !sandbox.HasFeature(b, sandbox.FeatureBuild) || os.Geteuid() != 0 {
		return nil
	}
	s := spec()
	s.Root = sandbox.Root{Dir: toolRoot(t), Writable: true}
	return []sandbox.Spec{s}
}

// endsUnleased checks that a promoted box without a lease ends with its server.
func endsUnleased(t *testing.T, b sandbox.Backend, id sandbox.ID) {
	t.Helper()
	if box, err := b.Reattach(within(t), id); err == nil {
		if _, err := box.Wait(within(t)); err != nil {
			t.Errorf("it outlives its server: %v", err)
		}
		if err := box.Close(); err != nil {
			t.Error(err)
		}
	}
	refused(t, b, id, sandbox.NotFound)
}

// endsInside ends a reattached box from inside. Its owner can still read its usage and how it ended.
func endsInside(t *testing.T, owner, other sandbox.Backend, id sandbox.ID) {
	t.Helper()
	over := reattach(t, owner, id)
	if err := dial(t, over).Shutdown(within(t)); err != nil {
		t.Fatal(err)
	}
	switch end, err := over.Wait(within(t)); {
	case err != nil || end.Cause == sandbox.EndClosed:
		t.Errorf("it ended as %+v, %v", end, err)
	case end.Cause != sandbox.EndGuest:
		t.Logf("how the guest ended is unknown before Linux 6.15: %+v", end)
	}
	if err := other.Reap(within(t)); err != nil {
		t.Error(err)
	}
	refused(t, other, id, sandbox.Exists)
	if u, err := over.Usage(within(t)); err != nil || u.Wall <= 0 {
		t.Errorf("after the end the usage is %s, %v", describe(u), err)
	}
}

// serve is the main function of a server.
func (r Restarted) serve(t *testing.T, order string) {
	var l life
	if err := json.Unmarshal([]byte(order), &l); err != nil {
		t.Fatal(err)
	}
	b := r.Open(t, l.Run)
	for _, spec := range l.Create {
		r.make(t, b, spec, spec.ID == l.Promote)
	}
	for _, id := range l.Reattach {
		reattach(t, b, id)
	}
	_, _ = os.NewFile(3, "ready").Write([]byte{1})
	_, _ = io.Copy(io.Discard, os.Stdin) // until it is killed, or the test ends
	os.Exit(1)
}

// make makes a box with a file and a process. Its connection stays open.
func (r Restarted) make(t *testing.T, b sandbox.Backend, spec sandbox.Spec, promote bool) {
	t.Helper()
	box, err := b.Create(within(t), spec)
	if err != nil {
		t.Fatal(err)
	}
	if out, _ := finish(t, startShell(t, dial(t, box), inside)); out != "done\n" {
		t.Fatalf("it says %q", out)
	}
	if !promote {
		return
	}
	if err := box.(sandbox.Promoter).Promote(within(t), sandbox.Lifetime{Living: true, Lease: lease}); err != nil {
		t.Fatal(err)
	}
}

// launch starts a server, waits until its boxes are ready, and returns a function that kills it.
func launch(t *testing.T, l life) (kill func()) {
	t.Helper()
	order, err := json.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	ready, done, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer ready.Close()
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$")
	cmd.Env, cmd.ExtraFiles = append(os.Environ(), envServer+"="+string(order)), []*os.File{done}
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said // Wait returns once nobody holds these, a living box least of all
	_, err = cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	done.Close()
	if err != nil {
		t.Fatal(err)
	}
	kill = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	t.Cleanup(kill)
	if n, err := ready.Read(make([]byte, 1)); n != 1 {
		kill()
		t.Fatalf("the server: %v\n%s", err, said.String())
	}
	return kill
}

func reattach(t *testing.T, b sandbox.Backend, id sandbox.ID) sandbox.Box {
	t.Helper()
	box, err := b.Reattach(within(t), id)
	if err != nil {
		t.Fatal(err)
	}
	return box
}

// refused fails the test unless a box cannot be reattached, for this reason.
func refused(t *testing.T, b sandbox.Backend, id sandbox.ID, want sandbox.Kind) {
	t.Helper()
	box, err := b.Reattach(within(t), id)
	if box != nil || sandbox.KindOf(err) != want {
		t.Errorf("reattached %v, %v; want the error %s", box, err, want)
	}
	t.Logf("%s: %v", want, err)
}

// still fails the test unless a box still has its file and its process.
func still(t *testing.T, box sandbox.Box) {
	t.Helper()
	c := dial(t, box)
	if out, _ := finish(t, startShell(t, c, "cat file && kill -0 $(cat pid) && echo runs")); out != "kept\nruns\n" {
		t.Errorf("of its file and its process there is %q", out)
	}
}

// leavesNothing looks for folders, control groups and processes of boxes.
func leavesNothing(t *testing.T, run string, ids []sandbox.ID) {
	t.Helper()
	for _, root := range []string{run, "/sys/fs/cgroup"} {
		_ = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			for _, id := range ids {
				if err == nil && strings.HasPrefix(entry.Name(), string(id)) {
					t.Errorf("%s is left", path)
				}
			}
			if root == run && err == nil && filepath.Base(filepath.Dir(path)) == "instances" {
				t.Errorf("the instance %s is left", path)
			}
			return nil // others come and go
		})
	}
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range lines {
		text, _ := os.ReadFile(file)
		for _, id := range ids {
			if strings.Contains(string(text), string(id)) {
				t.Errorf("%s is left: %q", file, text)
			}
		}
	}
}
