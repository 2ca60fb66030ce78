package template

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// DefaultPath is the PATH of commands in images that set none.
const DefaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Failed is the error of a command that did not succeed.
type Failed struct {
	Line   int    // of the Dockerfile; 0 of a step
	Text   string // the instruction
	Result *sandbox.Result
}

func (f *Failed) Error() string {
	place := "template"
	if f.Line > 0 {
		place = fmt.Sprintf("Dockerfile line %d", f.Line)
	}
	how := string(f.Result.Status)
	switch f.Result.Status {
	case sandbox.StatusFailed:
		how = fmt.Sprintf("exit status %d", f.Result.ExitCode)
	case sandbox.StatusTimeout:
		how = "it took longer than " + f.Result.Requested.Limits.Timeout.String()
	}
	return fmt.Sprintf("%s: %.200s: %s", place, f.Text, how)
}

// run carries out a RUN in a builder.
func (b *build) run(ctx context.Context, st *state, i instruction) (cached bool, err error) {
	if st.tree == "" {
		return false, sandbox.Invalidf("RUN", "the image has no files; copy some before")
	}
	if st.config.Dir != "" { // of the base image
		if _, err := b.makeDir(ctx, st, st.config.Dir); err != nil {
			return false, err
		}
	}
	user, home, err := b.user(st)
	if err != nil {
		return false, err
	}
	command := st.commandOf(i)
	env := slices.Clone(st.args)
	for _, kv := range st.config.Env {
		name, value, _ := strings.Cut(kv, "=")
		env = set(env, name, value)
	}
	key := hash(slices.Concat([]string{string(st.key[:]), "run", user.String(), st.config.Dir,
		strconv.Itoa(len(command))}, command, env)...)
	return b.layer(st, key, func() (tree string, err error) {
		for _, kv := range []string{"PATH=" + DefaultPath, "HOME=" + home} {
			if name, value, _ := strings.Cut(kv, "="); !isSet(env, name) {
				env = append(env, name+"="+value)
			}
		}
		dir := st.config.Dir
		if dir == "" {
			dir = "/"
		}
		backend := b.want.Backend
		if backend == "" {
			backend = b.choose(ctx)
		}
		step := b.done
		result, err := b.Run(ctx, engine.OneShot{
			Owner: b.want.Owner, Backend: backend,
			Spec: sandbox.Spec{Root: sandbox.Root{Dir: b.folder(st), Writable: true}, Limits: b.want.Limits,
				Network: b.want.Network, User: user, Env: env, AllowUnenforced: b.want.AllowUnenforced},
			Request: sandbox.Request{Command: command, Dir: dir, Output: func(s sandbox.Stream, data []byte) {
				b.report(Event{Step: step, Steps: b.steps, Stream: s, Output: data})
			}},
			Changes: func(layer io.Reader) error {
				tree, err = b.derive(ctx, st, layer)
				return err
			}})
		switch {
		case err != nil:
			return "", err
		case result.Status == sandbox.StatusCanceled && ctx.Err() != nil:
			return "", context.Cause(ctx)
		case result.Status != sandbox.StatusSucceeded:
			return "", &Failed{Line: i.line, Text: i.text, Result: result}
		}
		return tree, nil
	})
}

func isSet(list []string, name string) bool {
	return slices.ContainsFunc(list, func(kv string) bool { return strings.HasPrefix(kv, name+"=") })
}

// user returns the user of commands and its home.
func (b *build) user(st *state) (u sandbox.User, home string, err error) {
	return b.userOf(st, st.config.User)
}

// userOf resolves USER[:GROUP], names by the current tree.
func (b *build) userOf(st *state, text string) (u sandbox.User, home string, err error) {
	name, groupName, hasGroup := strings.Cut(text, ":")
	if text == "" {
		name = "0"
	}
	home = "/"
	id, err := strconv.ParseUint(name, 10, 16)
	found := err == nil
	u.UID = uint32(id)
	for line := range strings.Lines(string(b.readFile(st, "etc/passwd"))) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 7)
		if len(f) < 6 || f[0] != name && f[2] != name {
			continue
		}
		uid, uidErr := strconv.ParseUint(f[2], 10, 16)
		gid, gidErr := strconv.ParseUint(f[3], 10, 16)
		if uidErr == nil && gidErr == nil {
			u, home, found = sandbox.User{UID: uint32(uid), GID: uint32(gid)}, f[5], true
			break
		}
	}
	if !found {
		return u, home, sandbox.Invalidf("USER", "the image has no user %.80q", name)
	}
	if u.UID == 0 && home == "/" {
		home = "/root"
	}
	if !hasGroup {
		return u, home, nil
	}
	if gid, err := strconv.ParseUint(groupName, 10, 16); err == nil {
		u.GID = uint32(gid)
		return u, home, nil
	}
	for line := range strings.Lines(string(b.readFile(st, "etc/group"))) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 4)
		if len(f) < 3 || f[0] != groupName {
			continue
		}
		if gid, err := strconv.ParseUint(f[2], 10, 16); err == nil {
			u.GID = uint32(gid)
			return u, home, nil
		}
	}
	return u, home, sandbox.Invalidf("USER", "the image has no group %.80q", groupName)
}

// DefaultLimits returns the limits of a step that sets none, on a host with these limits, up to the most that builds
// may have. Files are in memory.
func DefaultLimits(host, most sandbox.Limits) sandbox.Limits {
	l := sandbox.Limits{MemoryBytes: 8 << 30, CPUMillis: 4000, Pids: 1024, Inodes: 1_000_000, OpenFiles: 4096,
		Timeout: 15 * time.Minute, OutputBytes: 64 << 20}
	if most := host.MemoryBytes / 2; most > 0 {
		l.MemoryBytes = min(l.MemoryBytes, most)
	}
	for _, limit := range []sandbox.LimitName{sandbox.LimitCPUs, sandbox.LimitPids, sandbox.LimitOpenFiles} {
		if most := host.Get(limit); most > 0 {
			l.Set(limit, min(l.Get(limit), most))
		}
	}
	lower := func() {
		for _, limit := range sandbox.LimitNames {
			if most := most.Get(limit); most > 0 {
				l.Set(limit, min(l.Get(limit), most))
			}
		}
	}
	lower()
	l.DiskBytes = l.MemoryBytes / 4 * 3
	lower()
	return l
}

// able returns the names of the backends with writable roots.
func (b *Builder) able() (names []string) {
	for _, backend := range b.Backends {
		if sandbox.HasFeature(backend, sandbox.FeatureBuild) {
			names = append(names, backend.Name())
		}
	}
	return names
}

// checkBackend refuses a backend without writable roots.
func (b *build) checkBackend() error {
	names := b.able()
	if b.want.Backend == "" && len(names) > 0 || slices.Contains(names, b.want.Backend) {
		return nil
	}
	err := &sandbox.Error{Kind: sandbox.Unsupported, Op: "template", Msg: "no backend here has writable roots"}
	if len(names) > 0 {
		err.Msg, err.Fix = b.want.Backend+" has no writable roots", "use "+strings.Join(names, " or ")
	}
	return err
}

// choose returns the backend of builds that name none: the strongest that works here.
func (b *Builder) choose(ctx context.Context) string {
	names := b.able()
	if b.Probe == nil {
		return names[0]
	}
	b.chosen.mu.Lock()
	defer b.chosen.mu.Unlock()
	if b.chosen.name != "" && (b.chosen.until.IsZero() || time.Now().Before(b.chosen.until)) {
		return b.chosen.name
	}
	ctx = context.WithoutCancel(ctx) // a client that leaves does not choose for the others
	var probed []engine.Probed
	var until time.Time
	for _, name := range names {
		p := b.Probe(ctx, name)
		if probed = append(probed, p); !p.Usable() {
			until = time.Now().Add(chosenFor)
		}
	}
	name, ok := engine.Strongest(probed)
	if !ok {
		return names[0] // the run reports why it cannot work here, or the build waives that
	}
	b.chosen.name, b.chosen.until = name, until
	return name
}
