package engine_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/wording"
	"github.com/fumehood-dev/fumehood/sandbox"
)

func TestPlan(t *testing.T) {
	rig := newRig(t, engine.Config{Defaults: sandbox.Limits{Pids: 50}, Max: sandbox.Limits{MemoryBytes: 256 << 20}})
	plan := func(run engine.OneShot) *engine.Plan {
		t.Helper()
		p, err := rig.Plan(within(t), run)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	p := plan(engine.OneShot{
		Spec: sandbox.Spec{Limits: sandbox.Limits{CPUMillis: 500},
			Env: []string{"A=spec", "LANG=spec", "SHELL_LOOKS=spec"}},
		Request: sandbox.Request{Language: "SH", Code: []byte("echo"), Args: []string{"-x"}, Env: []string{"A=request"},
			Timeout: time.Second, Dir: "sub/../other"},
	})
	if p.Backend != "fake" || p.Language != "shell" || p.Dir != "/workspace/other" ||
		p.CodePath != "/workspace/main.sh" ||
		!slices.Equal(p.Argv, []string{"bash", "/workspace/main.sh", "-x"}) {
		t.Errorf("%+v", p)
	}
	want := sandbox.DefaultLimits
	want.Pids, want.MemoryBytes, want.CPUMillis, want.Timeout = 50, 256<<20, 500, time.Second
	if p.Spec.Limits != want || !slices.Equal(
		p.Spec.Named, []sandbox.LimitName{sandbox.LimitCPUs, sandbox.LimitTimeout}) {
		t.Errorf("limits %+v, named %v", p.Spec.Limits, p.Spec.Named)
	}
	if p.Spec.User != sandbox.DefaultUser || p.Spec.Network.Mode != sandbox.NetworkNone {
		t.Errorf("%+v", p.Spec)
	}
	for _, kv := range []string{"A=request", "LANG=spec", "HOME=/home/agent", "SHELL_SAYS=hello", "SHELL_TRIES=0",
		"SHELL_LOOKS=spec"} {
		if !slices.Contains(p.Env, kv) {
			t.Errorf("%s is missing in %q", kv, p.Env)
		}
	}
	for _, l := range []struct{ asked, disk int64 }{{0, 30 << 20}, {60 << 20, 60 << 20}} {
		// half of the memory where it is not named
		p = plan(engine.OneShot{Spec: sandbox.Spec{Limits: sandbox.Limits{MemoryBytes: 60 << 20, DiskBytes: l.asked}},
			Request: sandbox.Request{Entry: "b.sh"}})
		if p.Spec.Limits.DiskBytes != l.disk {
			t.Errorf("a disk of %d is %d; want %d", l.asked, p.Spec.Limits.DiskBytes, l.disk)
		}
	}
	p = plan(engine.OneShot{Spec: sandbox.Spec{Workspace: "/somewhere"},
		Request: sandbox.Request{FileName: "x.sh", Code: []byte("echo")}})
	if p.CodePath != "/tmp/x.sh" || !slices.Contains(p.Env, "SHELLPATH=/workspace") {
		t.Errorf("with a host directory: %+v", p)
	}
	p = plan(engine.OneShot{Request: sandbox.Request{Entry: "a/b.sh"}})
	if p.CodePath != "/workspace/a/b.sh" || p.Language != "shell" {
		t.Errorf("with an entry: %+v", p)
	}
	if creates, _ := rig.count(); creates != 0 {
		t.Error("a plan made a box")
	}
}

// TestCeilingOfKey: what the ceiling of an API key does not set is that of the server.
func TestCeilingOfKey(t *testing.T) {
	const public, some, full = sandbox.NetworkPublic, sandbox.NetworkRestricted, sandbox.NetworkFull
	for _, c := range []struct{ server, key, want sandbox.NetworkCeiling }{
		{sandbox.NetworkCeiling{Mode: some, Allow: []string{"a.test"}}, sandbox.NetworkCeiling{Mode: some},
			sandbox.NetworkCeiling{Mode: some, Allow: []string{"a.test"}}},
		{sandbox.NetworkCeiling{Mode: some, Allow: []string{"a.test"}}, sandbox.NetworkCeiling{Mode: full},
			sandbox.NetworkCeiling{Mode: some, Allow: []string{"a.test"}}},
		{sandbox.NetworkCeiling{Mode: some, Allow: []string{public}}, sandbox.NetworkCeiling{Allow: []string{public}},
			sandbox.NetworkCeiling{Mode: some, Allow: []string{public}}},
		{sandbox.NetworkCeiling{Mode: sandbox.NetworkNone, Allow: []string{public}},
			sandbox.NetworkCeiling{Allow: []string{"a.test"}},
			sandbox.NetworkCeiling{Mode: sandbox.NetworkNone, Allow: []string{"a.test"}}},
		{sandbox.NetworkCeiling{Mode: full, Allow: []string{public}, DefaultMode: true},
			sandbox.NetworkCeiling{Allow: []string{"a.test"}},
			sandbox.NetworkCeiling{Mode: some, Allow: []string{"a.test"}}},
		{sandbox.NetworkCeiling{Mode: some, Allow: []string{"a.test"}, DefaultMode: true},
			sandbox.NetworkCeiling{Allow: []string{public}},
			sandbox.NetworkCeiling{Mode: full, Allow: []string{public}}},
	} {
		rig := newRig(t, engine.Config{Ceiling: &c.server,
			OwnerLimits: func(string) engine.OwnerLimits { return engine.OwnerLimits{Ceiling: &c.key} }})
		_, _, got := rig.LimitsOf("key")
		if got.Mode != c.want.Mode || !slices.Equal(got.Allow, c.want.Allow) {
			t.Errorf("%+v below %+v: %+v", c.key, c.server, *got)
		}
	}
}

// TestSmallMemory: a small default or maximum of the memory lowers the default of the disk, which nobody named.
func TestSmallMemory(t *testing.T) {
	const size = 64 << 20
	for _, config := range []engine.Config{{Max: sandbox.Limits{MemoryBytes: size, DiskBytes: 1 << 30}},
		{Defaults: sandbox.Limits{MemoryBytes: size}, Max: sandbox.Limits{DiskBytes: 1 << 30}}} {
		defaults, _, _ := newRig(t, config).LimitsOf("")
		if defaults.MemoryBytes != size || defaults.DiskBytes != size/2 {
			t.Errorf("%+v: %+v", config.Max, defaults)
		}
	}
}

// TestRefused: every bad request is an error of the right kind that names the part that is wrong, and nothing is made.
func TestRefused(t *testing.T) {
	rig := newRig(t, engine.Config{Max: sandbox.Limits{MemoryBytes: 1 << 30, Timeout: time.Minute}})
	ok := func() sandbox.Request { return sandbox.Request{Language: "shell", Code: []byte("echo hi")} }
	request := func(change func(*sandbox.Request)) engine.OneShot {
		r := ok()
		change(&r)
		return engine.OneShot{Request: r}
	}
	spec := func(change func(*sandbox.Spec)) engine.OneShot {
		r := engine.OneShot{Request: ok()}
		change(&r.Spec)
		return r
	}
	limits := func(l sandbox.Limits) engine.OneShot { return spec(func(s *sandbox.Spec) { s.Limits = l }) }
	for _, test := range []struct {
		name string
		run  engine.OneShot
		kind sandbox.Kind
		says string
	}{
		{"nothing", engine.OneShot{}, sandbox.Invalid, "code"},
		{"unknown language", request(func(r *sandbox.Request) { r.Language = "shel" }), sandbox.Invalid,
			"did you mean shell"},
		{"going without what there is not", spec(func(s *sandbox.Spec) { s.AllowUnenforced = []string{"memroy"} }),
			sandbox.Invalid, "did you mean memory"},
		{"no language", request(func(r *sandbox.Request) { r.Language = "" }), sandbox.Invalid, "supported are shell"},
		{"empty code", request(func(r *sandbox.Request) { r.Code = []byte(" \n") }), sandbox.Invalid, "empty"},
		{"NUL", request(func(r *sandbox.Request) { r.Code = []byte("a\x00b") }), sandbox.Invalid, "offset 1"},
		{"bad UTF-8", request(func(r *sandbox.Request) { r.Code = []byte("aä\xff") }), sandbox.Invalid, "offset 3"},
		{"100 MB of code", request(func(r *sandbox.Request) { r.Code = make([]byte, 100<<20) }), sandbox.TooLarge,
			"100MiB"},
		{"11 MiB of code", request(func(r *sandbox.Request) { r.Code = []byte(strings.Repeat("a", 11<<20)) }),
			sandbox.TooLarge, "10MiB"},
		{"code and command", request(func(r *sandbox.Request) { r.Command = []string{"ls"} }), sandbox.Invalid,
			"together"},
		{"code and entry", request(func(r *sandbox.Request) { r.Entry = "x" }), sandbox.Invalid, "together"},
		{"empty command", engine.OneShot{Request: sandbox.Request{Command: []string{""}}}, sandbox.Invalid, "command"},
		{"NUL in command", engine.OneShot{Request: sandbox.Request{Command: []string{"a", "\x00"}}}, sandbox.Invalid,
			"word 1"},
		{"long word", engine.OneShot{Request: sandbox.Request{Command: []string{strings.Repeat("a", 200<<10)}}},
			sandbox.TooLarge, "word 0"},
		{"long command", engine.OneShot{
			Request: sandbox.Request{Command: slices.Repeat([]string{strings.Repeat("a", 1000)}, 600)}},
			sandbox.TooLarge, "512KiB"},
		{"bad variable", request(func(r *sandbox.Request) { r.Env = []string{"A-B=c"} }), sandbox.Invalid, "A-B"},
		{"bad path", request(func(r *sandbox.Request) { r.Files = []sandbox.File{{Path: "../x"}} }), sandbox.Invalid,
			"files[0].path"},
		{"the code's name", request(func(r *sandbox.Request) { r.Files = []sandbox.File{{Path: "main.sh"}} }),
			sandbox.Invalid, "main.sh"},
		{"100,000 files", request(func(r *sandbox.Request) { r.Files = make([]sandbox.File, 100_000) }),
			sandbox.TooLarge, "10000"},
		{"folder in file name", request(func(r *sandbox.Request) { r.FileName = "a/b.sh" }), sandbox.Invalid, "folder"},
		{"bad dir", request(func(r *sandbox.Request) { r.Dir = "/proc/self/fd/7" }), sandbox.Invalid, "dir"},
		{"bad pattern", request(func(r *sandbox.Request) { r.Return.Globs = []string{"["} }), sandbox.Invalid,
			"return_files[0]"},
		{"negative return", request(func(r *sandbox.Request) { r.Return.MaxFiles = -1 }), sandbox.Invalid,
			"return_files"},
		{"negative timeout", request(func(r *sandbox.Request) { r.Timeout = -1 }), sandbox.Invalid, "timeout"},
		{"a timeout over any", request(func(r *sandbox.Request) { r.Timeout = 100 * time.Hour }), sandbox.Invalid,
			"100h0m0s is over the server's maximum of 1m0s"},
		{"a limit over any", limits(sandbox.Limits{Timeout: 100 * time.Hour}), sandbox.Invalid,
			"100h0m0s is over the server's maximum of 1m0s"},
		{"long timeout", request(func(r *sandbox.Request) { r.Timeout = time.Hour }), sandbox.Invalid, "1m0s"},
		{"negative memory", limits(sandbox.Limits{MemoryBytes: -1}), sandbox.Invalid, "limits.memory"},
		{"over the maximum", limits(sandbox.Limits{MemoryBytes: 2 << 30}), sandbox.Invalid, "1GiB"},
		{"absurd", limits(sandbox.Limits{Pids: 1 << 62}), sandbox.Invalid, "limits.pids"},
		{"fewer processes than the language needs", limits(sandbox.Limits{Pids: 2}), sandbox.Invalid,
			"too few for shell, which needs 3"},
		{"too little", limits(sandbox.Limits{DiskBytes: 1}), sandbox.Invalid, "limits.disk"},
		{"a disk beyond the memory", limits(sandbox.Limits{MemoryBytes: 64 << 20, DiskBytes: 65 << 20}),
			sandbox.Invalid, "more than the memory limit of 64MiB"},
		{"unknown backend", engine.OneShot{Backend: "vmware", Request: ok()}, sandbox.Invalid, "fake"},
		{"network", spec(func(s *sandbox.Spec) { s.Network.Mode = "host" }), sandbox.Invalid, "network.mode"},
		{"rules without network", spec(func(s *sandbox.Spec) { s.Network.Allow = []string{"x"} }), sandbox.Invalid,
			"network"},
		{"workspace /", spec(func(s *sandbox.Spec) { s.Workspace = "/" }), sandbox.Invalid, "workspace"},
		{"relative workspace", spec(func(s *sandbox.Spec) { s.Workspace = "x" }), sandbox.Invalid, "workspace"},
		{"mount on /proc", spec(func(s *sandbox.Spec) {
			s.Mounts = []sandbox.Mount{
				{Source: "/a", Target: "/proc/x"}}
		}), sandbox.Invalid, "mounts[0]"},
		{"mount of /", spec(func(s *sandbox.Spec) { s.Mounts = []sandbox.Mount{{Source: "/", Target: "/x"}} }),
			sandbox.Invalid, "mounts[0]"},
		{"living", spec(func(s *sandbox.Spec) { s.Lifetime.Living = true }), sandbox.Invalid, "lifetime"},
	} {
		result, err := rig.Run(within(t), test.run)
		var typed *sandbox.Error
		if err == nil || !errors.As(err, &typed) || sandbox.KindOf(err) != test.kind ||
			!strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %+v, %v (%v); want %v that says %q", test.name, result, err, sandbox.KindOf(err), test.kind,
				test.says)
		}
		if err != nil && len(err.Error()) > 1000 {
			t.Errorf("%s: an error of %d bytes", test.name, len(err.Error()))
		}
	}
	if creates, _ := rig.count(); creates != 0 {
		t.Errorf("%d boxes were made for bad requests", creates)
	}
}

func TestConfig(t *testing.T) {
	f := &faults{Backend: newRig(t, engine.Config{}).fake}
	good := func() engine.Config { return engine.Config{Backends: []sandbox.Backend{f}} }
	for name, change := range map[string]func(*engine.Config){
		"no backend":       func(c *engine.Config) { c.Backends = nil },
		"two of one name":  func(c *engine.Config) { c.Backends = []sandbox.Backend{f, f} },
		"unknown default":  func(c *engine.Config) { c.Default = "x" },
		"negative slots":   func(c *engine.Config) { c.Slots = -1 },
		"negative maximum": func(c *engine.Config) { c.Max.Pids = -1 },
		"default over maximum": func(c *engine.Config) {
			c.Defaults.Timeout, c.Max.Timeout = 10*time.Second, 5*time.Second
		},
		"bad environment": func(c *engine.Config) { c.DefaultEnv = []string{"x"} },
		"two languages":   func(c *engine.Config) { c.Languages = []sandbox.Language{shell, shell} },
		"empty language":  func(c *engine.Config) { c.Languages = []sandbox.Language{{Name: "x"}} },
	} {
		config := good()
		change(&config)
		if _, err := engine.New(config); sandbox.KindOf(err) != sandbox.Invalid || err == nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{"", "auto", "fake"} {
		config := good()
		config.Default = name
		if _, err := engine.New(config); err != nil {
			t.Errorf("default %q: %v", name, err)
		}
	}
}

// TestAuto chooses the strongest backend that is available; if there is none, the error says why for each.
func TestAuto(t *testing.T) {
	rig := newRig(t, engine.Config{})
	stands := func(name string, kernel sandbox.Kernel, ready bool) sandbox.Backend {
		return &named{faults: &faults{Backend: rig.fake, probe: func() (sandbox.Posture, error) {
			return sandbox.Posture{Backend: name, Kernel: kernel, Ready: ready}, nil
		}}, name: name}
	}
	broken := &named{faults: &faults{Backend: rig.fake, probe: func() (sandbox.Posture, error) {
		return sandbox.Posture{}, &sandbox.Error{Kind: sandbox.Unsupported, Op: "broken", Msg: "no such device"}
	}}, name: "broken"}
	crazy := &named{faults: &faults{Backend: rig.fake, probe: func() (sandbox.Posture, error) { panic("probe") }},
		name: "crazy"}
	e, err := engine.New(engine.Config{Default: engine.Auto, Backends: []sandbox.Backend{
		stands("plain", sandbox.KernelShared, true), stands("strong", sandbox.KernelUserSpace, true),
		stands("strongest", sandbox.KernelMachine, false), stands("second", sandbox.KernelUserSpace, true),
		broken, crazy}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if p, err := e.Plan(within(t), sh("true")); err != nil || p.Backend != "strong" {
		t.Errorf("%+v, %v", p, err)
	}
	if c := e.Capabilities(within(t)); c.Default != "strong" || len(c.Backends) != 6 {
		t.Errorf("%+v", c)
	}
	e, err = engine.New(engine.Config{Default: engine.Auto, Backends: []sandbox.Backend{broken, crazy}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	_, err = e.Run(within(t), sh("true"))
	if sandbox.KindOf(err) != sandbox.Unsupported || !strings.Contains(err.Error(), "no such device") {
		t.Errorf("%v", err)
	}
	// A plan is for who has no backend as well.
	p, err := e.Plan(within(t), sh("true"))
	if err != nil {
		t.Fatal(err)
	}
	if p.Backend != engine.Auto || len(p.Argv) == 0 || p.Spec.Limits != sandbox.DefaultLimits ||
		sandbox.KindOf(p.Refusal) != sandbox.Unsupported ||
		!strings.Contains(p.Refusal.Error(), "no such device") {
		t.Errorf("%+v", p)
	}
}

type named struct {
	*faults
	name string
}

func (n *named) Name() string { return n.name }

// TestUnknownBackend: the error of a misspelt name suggests the likely one.
func TestUnknownBackend(t *testing.T) {
	rig := newRig(t, engine.Config{})
	for name, want := range map[string]string{
		"Fake": "did you mean fake?", "atuo": "did you mean auto?", "podman": ""} {
		run := sh("true")
		run.Backend = name
		if _, err := rig.Plan(within(t), run); sandbox.KindOf(err) != sandbox.Invalid || sandbox.FixOf(err) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// lacking is a backend that works, and refuses runs that do not waive memory.
type lacking struct{ *named }

func (l lacking) Preflight(spec sandbox.Spec) ([]sandbox.LimitName, error) {
	lacks := []sandbox.LimitName{sandbox.LimitMemory}
	if spec.Waives(string(sandbox.LimitMemory)) {
		return lacks, nil
	}
	return lacks, &sandbox.Error{Kind: sandbox.Unsupported, Op: l.name + ": limit memory", Msg: "nothing keeps it",
		Fix: "of " + l.name, Unenforced: lacks}
}

// TestAutoAccepts: a run's waivers let Auto choose if it otherwise could not, and never change its choice.
func TestAutoAccepts(t *testing.T) {
	rig := newRig(t, engine.Config{})
	backend := func(name string, kernel sandbox.Kernel) *named {
		return &named{faults: &faults{Backend: rig.fake, probe: func() (sandbox.Posture, error) {
			return sandbox.Posture{Backend: name, Kernel: kernel, Ready: true}, nil
		}}, name: name}
	}
	open := func(backends ...sandbox.Backend) *engine.Engine {
		e, err := engine.New(engine.Config{Default: engine.Auto, Backends: backends})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = e.Close() })
		return e
	}
	accepting := sh("true")
	accepting.Spec.AllowUnenforced = []string{"memory"}
	plain, strong := lacking{backend("plain", sandbox.KernelShared)},
		lacking{backend("strong", sandbox.KernelUserSpace)}

	e := open(plain, strong)
	for range 2 {
		_, err := e.Run(within(t), sh("true"))
		if lacks := sandbox.UnenforcedOf(err); len(lacks) != 1 || lacks[0] != sandbox.LimitMemory ||
			sandbox.FixOf(err) != "of strong" || strings.Contains(err.Error(), "plain: plain") {
			t.Errorf("it lacks %v: %v", lacks, err)
		}
		if p, err := e.Plan(within(t), accepting); err != nil || p.Backend != "strong" {
			t.Errorf("%+v, %v", p, err)
		}
	}

	e = open(backend("whole", sandbox.KernelShared), strong)
	for range 2 {
		if p, err := e.Plan(within(t), accepting); err != nil || p.Backend != "whole" {
			t.Errorf("%+v, %v", p, err)
		}
	}
}

// imaged is a backend whose roots are images.
type imaged struct{ *named }

func (imaged) Features() []sandbox.Feature { return nil }

// TestImageWithoutLanguage: in an image, the fix for a missing interpreter is another image, nothing of the host.
func TestImageWithoutLanguage(t *testing.T) {
	rig := newRig(t, engine.Config{})
	absent := sandbox.Language{Name: "absent", FileName: "main.absent", Programs: []string{"no-such-interpreter"},
		Missing: sandbox.Missing{Fix: "install it", Image: "absent:1"},
		Argv:    func(program, path string) []string { return []string{program, path} }}
	on := func(b sandbox.Backend) error {
		e, err := engine.New(engine.Config{Backends: []sandbox.Backend{b}, Languages: []sandbox.Language{absent}})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		_, err = e.Run(within(t), engine.OneShot{Request: sandbox.Request{Language: "absent", Code: []byte("x")}})
		return err
	}
	host := &named{faults: &faults{Backend: rig.fake}, name: "host"}
	for want, b := range map[string]sandbox.Backend{"install it": host, "--image absent:1": imaged{host}} {
		if err := on(b); sandbox.KindOf(err) != sandbox.Unsupported ||
			!strings.Contains(err.Error(), "not found in the sandbox: no-such-interpreter") ||
			!strings.Contains(wording.CommandLine.Fix(err), want) {
			t.Errorf("got %v, not %q", err, want)
		}
	}
}
