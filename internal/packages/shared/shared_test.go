package shared_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/internal/packages"
	"github.com/fumehood-dev/fumehood/internal/packages/shared"
	"github.com/fumehood-dev/fumehood/sandbox"
	"github.com/fumehood-dev/fumehood/test/redistest"
)

// machine is a Packager with its own cache. Its worker stands for the sandboxes that survey and install.
type machine struct {
	*packages.Packager
	t        *testing.T
	dir      string
	log      lockedBuffer
	installs atomic.Int32
	busy     func()       // called by an installer
	progress func(string) // what the run is told
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func newMachine(t *testing.T, s packages.Shared) *machine {
	t.Helper()
	m := &machine{t: t, dir: t.TempDir(), busy: func() {}, progress: func(string) {}}
	m.Packager = packages.New(packages.Config{Dir: m.dir, Shared: s, Log: slog.New(slog.NewTextHandler(&m.log, nil))})
	t.Cleanup(func() {
		if strings.Contains(m.log.String(), redistest.Password) {
			t.Errorf("the log has the password:\n%s", m.log.String())
		}
		if left, err := os.ReadDir(filepath.Join(m.dir, "work")); err != nil || len(left) > 0 {
			t.Errorf("left in the cache: %v %v", left, err)
		}
	})
	return m
}

// installed are the files of every package here.
var installed = []struct {
	path    string
	mode    uint32
	content string
}{{"pack/__init__.py", 0o644, "answer = 42\n"}, {"bin/" + strings.Repeat("tool", 40), 0o755, "#!/bin/sh\n"},
	{"pack/data", 0o600, strings.Repeat("0123456789", 20_000)}}

const thisLock = "pack==1.0"

func (m *machine) work(_ context.Context, w sandbox.Work) (*sandbox.Result, error) {
	var reply any
	if w.Take == nil {
		var q sandbox.PackageQuestion
		if err := json.Unmarshal(w.Stdin, &q); err != nil {
			return nil, err
		}
		reply = sandbox.PackageSurvey{Platform: "test", Installer: "test", Index: "https://index.invalid/",
			Requirements: q.Requirements}
	} else {
		m.installs.Add(1)
		m.busy()
		for _, f := range installed {
			if err := w.Take(sandbox.FileInfo{Path: f.path, Type: sandbox.TypeFile, Mode: f.mode,
				Size: int64(len(f.content))}, strings.NewReader(f.content)); err != nil {
				return nil, err
			}
		}
		reply = sandbox.PackageReceipt{Packages: []sandbox.Package{{Name: "pack", Version: "1.0"}}, Lock: thisLock}
	}
	text, err := json.Marshal(reply)
	return &sandbox.Result{Status: sandbox.StatusSucceeded, Stdout: sandbox.Captured{Head: text}}, err
}

// supply gets the packages and returns their digest, after a look at the files. It fails the test if more or less was
// installed than that.
func (m *machine) supply(p sandbox.Packages, installs int32) string {
	m.t.Helper()
	none := func(program string) []string { return []string{program} }
	need := sandbox.PackageNeed{Packages: p, Progress: func(line string) { m.progress(line) },
		Language: sandbox.Language{Name: "test", Title: "Test", Installer: &sandbox.Installer{At: "/opt/packages",
			Survey: none, Install: none, Valid: func(r string) bool { return r != "" },
			ValidLock: func(l string) bool { return l == thisLock }}}}
	s, err := m.Supply(context.Background(), need, m.work)
	if err != nil {
		m.t.Fatalf("%v\n%s", err, m.log.String())
	}
	defer s.Release()
	for _, f := range installed {
		path := filepath.Join(s.Layers[0].Dir, f.path)
		content, err := os.ReadFile(path)
		if err != nil || string(content) != f.content {
			m.t.Fatalf("%s has %d bytes, %v", f.path, len(content), err)
		}
		if info, err := os.Stat(path); err != nil || (info.Mode()&0o111 != 0) != (f.mode&0o111 != 0) {
			m.t.Errorf("%s: %v %v", f.path, info.Mode(), err)
		}
	}
	if n := m.installs.Load(); n != installs {
		m.t.Errorf("%d installations, want %d\n%s", n, installs, m.log.String())
	}
	return s.Layers[0].Digest
}

var pack = sandbox.Packages{Requirements: []string{"pack"}}

// open opens a tier on a Redis server and a folder.
func open(t *testing.T, redis, dir string) packages.Shared {
	t.Helper()
	s, err := shared.Open(redis, "file://"+filepath.ToSlash(dir))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSecondMachineInstallsNothing(t *testing.T) {
	r := redistest.Start(t)
	dir := filepath.Join(t.TempDir(), "new")
	a, b, c := newMachine(t, open(t, r.Address, dir)), newMachine(t, open(t, r.Address, dir)),
		newMachine(t, open(t, r.Address, dir))
	digest := a.supply(pack, 1)
	if got := b.supply(pack, 0); got != digest {
		t.Errorf("the second machine has the layer %s, the first %s", got, digest)
	}
	c.supply(sandbox.Packages{Lock: thisLock}, 0) // under the key of its lock, too
	r.Kill()
	b.supply(pack, 0) // has it by itself now
	for _, m := range []*machine{a, b, c} {
		if log := m.log.String(); log != "" {
			t.Error(log)
		}
	}
}

// counted has Answers that count how often a lock is taken or extended.
type counted struct {
	packages.Answers
	locks chan bool
}

func (c *counted) Lock(ctx context.Context, key, holder string, lease time.Duration) (bool, error) {
	got, err := c.Answers.Lock(ctx, key, holder, lease)
	c.locks <- got
	return got, err
}

func TestTwoMachinesInstallOnce(t *testing.T) {
	r, dir := redistest.Start(t), t.TempDir()
	s := open(t, r.Address, dir)
	locks := &counted{s.Answers, make(chan bool, 10)}
	a, b := newMachine(t, packages.Shared{Answers: locks, Archives: s.Archives}), newMachine(t, s)
	begun, waiting := make(chan bool), make(chan bool)
	a.busy = func() {
		close(begun)
		<-waiting
		if testing.Short() {
			return
		}
		for range 2 { // taken, and extended after a third of the lease
			if !<-locks.locks {
				t.Error("the lock was not extended")
			}
		}
	}
	b.progress = func(line string) {
		if strings.HasPrefix(line, "waiting for another machine") {
			close(waiting)
		}
	}
	var both sync.WaitGroup
	both.Go(func() { a.supply(pack, 1) })
	<-begun
	both.Go(func() { b.supply(pack, 0) })
	both.Wait()
}

// TestBadArchives: an invalid archive is refused, and replaced by an installation.
func TestBadArchives(t *testing.T) {
	r := redistest.Start(t)
	entry := func(h tar.Header) func([]byte) []byte {
		return func([]byte) []byte {
			var b bytes.Buffer
			packed := gzip.NewWriter(&b)
			files := tar.NewWriter(packed)
			err := errors.Join(files.WriteHeader(&h), files.Close(), packed.Close())
			if err != nil {
				t.Fatal(err)
			}
			return b.Bytes()
		}
	}
	for name, tamper := range map[string]func(good []byte) []byte{
		"changed":   func(b []byte) []byte { b[len(b)/2] ^= 1; return b },
		"truncated": func(b []byte) []byte { return b[:len(b)-30] },
		"empty":     func([]byte) []byte { return nil },
		"another":   entry(tar.Header{Name: "pack/__init__.py"}),
		"parent":    entry(tar.Header{Name: "../pack"}),
		"absolute":  entry(tar.Header{Name: "/etc/pack"}),
		"link":      entry(tar.Header{Name: "pack", Typeflag: tar.TypeSymlink, Linkname: "/etc"}),
		"device":    entry(tar.Header{Name: "pack", Typeflag: tar.TypeBlock}),
		"removed":   nil,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, r.Address, dir)
			this := sandbox.Packages{Requirements: []string{"pack", name}}
			digest := newMachine(t, s).supply(this, 1)
			path := filepath.Join(dir, digest+".tar.gz")
			good, err := os.ReadFile(path)
			if err == nil && tamper != nil {
				err = os.WriteFile(path, tamper(bytes.Clone(good)), 0o600)
			} else if err == nil {
				err = os.Remove(path)
			}
			if err != nil {
				t.Fatal(err)
			}
			b := newMachine(t, s)
			b.supply(this, 1)
			if log := b.log.String(); strings.Contains(log, "invalid archive") != (tamper != nil) {
				t.Errorf("the log has:\n%s", log)
			}
			newMachine(t, s).supply(this, 0)
		})
	}
}

// changed has Answers that give something else.
type changed struct {
	packages.Answers
	value string
	key   string
}

func (c *changed) Get(ctx context.Context, key string, most int) ([]byte, error) {
	if c.key == "" {
		c.key = key
		if err := c.Put(ctx, key, []byte(c.value), time.Hour); err != nil {
			return nil, err
		}
	}
	return c.Answers.Get(ctx, key, most)
}

func TestBadAnswers(t *testing.T) {
	r := redistest.Start(t)
	for name, value := range map[string]string{"text": "no JSON", "digest": `{"digest":"../../../etc"}`,
		"names": `{"requested":["\u001b[2J"]}`, "long": strings.Repeat(" ", 5<<20),
		"old": `{"digest":"","made":"2001-01-01T00:00:00Z"}`} {
		t.Run(name, func(t *testing.T) {
			s := open(t, r.Address, t.TempDir())
			this := sandbox.Packages{Requirements: []string{"pack", name}}
			planted := s
			planted.Answers = &changed{Answers: s.Answers, value: value}
			newMachine(t, planted).supply(this, 1)
			newMachine(t, s).supply(this, 0)
		})
	}
}

// TestRedisFails: runs go on, and the log says so once, if the password is wrong, Redis is killed during an
// installation, or is not there.
func TestRedisFails(t *testing.T) {
	r, dir := redistest.Start(t), t.TempDir()
	wrong := newMachine(t, open(t, strings.Replace(r.Address, redistest.Password, redistest.Password+"x", 1), dir))
	wrong.supply(pack, 1)
	a := newMachine(t, open(t, r.Address, dir))
	a.busy = r.Kill
	a.supply(pack, 1)
	b := newMachine(t, open(t, r.Address, dir))
	b.supply(pack, 1)
	b.supply(sandbox.Packages{Requirements: []string{"pack", "more"}}, 2)
	for _, m := range []*machine{wrong, a, b} {
		if log := m.log.String(); strings.Count(log, "\n") != 1 || !strings.Contains(log, "continuing without it") {
			t.Errorf("want one warning:\n%s", log)
		}
	}
}

// TestSilentRedis: a server that does not answer costs one timeout, and is then ignored for a pause.
func TestSilentRedis(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var dialled atomic.Int32
	var served sync.WaitGroup
	served.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			dialled.Add(1)
			served.Go(func() { io.Copy(io.Discard, c); c.Close() })
		}
	})
	m := newMachine(t, open(t, "redis://"+l.Addr().String(), t.TempDir()))
	m.supply(pack, 1)
	m.supply(sandbox.Packages{Requirements: []string{"pack", "more"}}, 2)
	l.Close()
	served.Wait()
	if n := dialled.Load(); n != 1 {
		t.Errorf("it was dialled %d times", n)
	}
}

// held has Answers whose lock a machine holds that died.
type held struct {
	packages.Answers
	once sync.Once
}

func (h *held) Lock(ctx context.Context, key, holder string, lease time.Duration) (bool, error) {
	h.once.Do(func() { h.Answers.Lock(ctx, key, "dead", time.Second) })
	return h.Answers.Lock(ctx, key, holder, lease)
}

func TestLeaseOfTheDeadEnds(t *testing.T) {
	r := redistest.Start(t)
	s := open(t, r.Address, t.TempDir())
	s.Answers = &held{Answers: s.Answers}
	m := newMachine(t, s)
	waited := false
	m.progress = func(line string) { waited = waited || strings.HasPrefix(line, "waiting") }
	m.supply(pack, 1)
	if !waited {
		t.Error("it did not wait")
	}
}

// TestContract tests the contract of Answers and Archives.
func TestContract(t *testing.T) {
	r, ctx := redistest.Start(t), t.Context()
	dir := t.TempDir()
	s := open(t, r.Address, dir)
	lock := func(holder string) bool {
		got, err := s.Answers.Lock(ctx, "key", holder, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if !lock("a") || lock("b") || !lock("a") {
		t.Error("a has the lock, b cannot, a can extend it")
	}
	if err := s.Answers.Unlock(ctx, "key", "b"); err != nil || lock("b") {
		t.Errorf("b freed what a holds (%v)", err)
	}
	if err := s.Answers.Unlock(ctx, "key", "a"); err != nil || !lock("b") {
		t.Errorf("a did not free its lock (%v)", err)
	}
	if v, err := s.Answers.Get(ctx, "none", 10); err != nil || len(v) > 0 {
		t.Errorf("no value: %q, %v", v, err)
	}
	if err := s.Answers.Put(ctx, "key", []byte("a value"), time.Hour); err != nil {
		t.Fatal(err)
	}
	if v, err := s.Answers.Get(ctx, "key", 3); err != nil || string(v) != "a v" {
		t.Errorf("its beginning: %q, %v", v, err)
	}
	if _, err := s.Archives.Open(ctx, "none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no archive: %v", err)
	}
	broken := errors.New("broken")
	content := io.MultiReader(strings.NewReader("half"), readerFunc(func([]byte) (int, error) { return 0, broken }))
	if err := s.Archives.Put(ctx, "half", content); err == nil {
		t.Error("half of an archive was taken")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("it left %v, %v", left, err)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestOpenRefuses(t *testing.T) {
	const good, secret = "redis://127.0.0.1:6379/1", "s3cret"
	for _, pair := range [][2]string{{"", "file:///x"}, {"http://:" + secret + "@x", "file:///x"},
		{"redis://:" + secret + "@%zz", "file:///x"}, {"redis:///1", "file:///x"}, {"redis://x/one", "file:///x"},
		{good, ""}, {good, "/x"}, {good, "file://x/y"}, {good, "s3://u:" + secret + "@x"}} {
		_, err := shared.Open(pair[0], pair[1])
		var e *sandbox.Error
		if !errors.As(err, &e) || e.Kind != sandbox.Invalid || strings.Contains(err.Error(), secret) {
			t.Errorf("%q: %v", pair, err)
		}
	}
}
