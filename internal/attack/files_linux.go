package attack

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// driveDirs is F03: working directories with misleading names.
func driveDirs(tr *trial) {
	for _, dir := range []string{"/proc/self/fd/8", "/proc/self/fd", "/proc/1/root", "/proc/self/cwd",
		"/workspace/../proc/self/fd/3", "//proc//self/fd/7",
		"/dev/fd/8", "/sys/fs", "../proc/1/cwd", "/proc/thread-self/root/etc"} {
		run := tr.request(tr.attack.code)
		run.Request.Dir = dir
		r, err := tr.arena.engine.Run(tr.stepContext(), run)
		if sandbox.KindOf(err) != sandbox.Invalid || err == nil {
			tr.fail("the directory %q is not reported as an invalid request: %v, %+v", dir, err, r)
		}
	}
	// A link that the code made leads to a place within the sandbox.
	l := tr.open()
	defer l.close()
	l.shell("ln -s /proc/self/fd /workspace/fds; ln -s /proc/1/root /workspace/root; ln -s / /workspace/top")
	for _, dir := range []string{"/workspace/fds/8", "/workspace/fds/3", "/workspace/root", "/workspace/top",
		"/proc/self/fd/8", "/proc/1/cwd"} {
		p, err := l.Start(tr.stepContext(), guest.Start{ID: string(sandbox.NewID()),
			Argv: []string{"/bin/bash", "-c", string(tr.attack.code)},
			Env:  append(tr.params(), sandbox.DefaultEnv...), Dir: dir, User: sandbox.DefaultUser})
		if err != nil {
			continue // refused, which is fine
		}
		out := tr.finish(p)
		if what := tr.arena.canaries.Found([]byte(out)); what != "" ||
			strings.Contains(out, tr.arena.canaries.marker) ||
			strings.Contains(out, "unreachable") {
			tr.fail("from %q, %s is visible: %s", dir, what, out)
		}
	}
}

// raceTime is the duration of a race between the host and the code.
const raceTime = 1500 * time.Millisecond

// leastRounds is the least number of rounds of a race, however slow the calls are.
const leastRounds = 5

// driveRace is F11: uploads below a folder that alternates between a folder and a link.
func driveRace(tr *trial) {
	for _, target := range []string{"/etc", tr.arena.canaries.places[0], "/proc/self/fd", "/dev/shm"} {
		tr.raceAgainst(target)
	}
}

func (tr *trial) raceAgainst(target string) {
	l := tr.open()
	defer l.close()
	code := tr.attack.code
	tr.attack.code = append([]byte("os.environ['TARGET'] = "+fmt.Sprintf("%q", target)+"\n"), code...)
	l.launch()
	tr.attack.code = code
	ctx := tr.stepContext()
	done := 0
	for end := time.Now().Add(raceTime / 4); (time.Now().Before(end) || done < leastRounds) &&
		ctx.Err() == nil; done++ {
		name := fmt.Sprintf("/workspace/d/f%d", done%16)
		// Each may fail: the folder may be missing or a link at this moment.
		_ = l.WriteFile(ctx, guest.WriteFile{Path: name, Atomic: done%2 == 0, MakeParent: done%3 == 0},
			strings.NewReader("sent"))
		_ = l.unpack("/workspace", "sent", guest.FileInfo{Path: "d/u", Type: guest.FileRegular, Mode: 0o644})
		_ = l.MakeDir(ctx, guest.MakeDir{Path: "/workspace/d/sub/deep", Parents: true})
		_ = l.Move(ctx, guest.Move{From: name, To: "/workspace/d/moved", Replace: true})
		_ = l.Remove(ctx, guest.Remove{Path: "/workspace/d/sub", Recursive: true})
		if info, err := l.Stat(ctx, guest.Stat{Path: name}); err == nil && info.UID != sandbox.DefaultUser.UID {
			tr.fail("%s belongs to %d: the call was not made as the code's user", name, info.UID)
		}
	}
	if out := l.shell("ls -a /etc /run /usr / | grep -xE 'f[0-9]+|u|moved|sub'"); out != "" {
		tr.fail("outside of the workspace there is %q", out)
	}
	if done < leastRounds {
		tr.giveUp("only %d rounds", done)
	}
}

// drivePaths is A01: spellings of paths, in the request and in every guest call.
func drivePaths(tr *trial) {
	c := tr.arena.canaries
	up := strings.Repeat("../", 30)
	escapes := []string{"../evil", up + "tmp/evil", up[:len(up)-1] + c.places[0] + "/evil", c.places[0] + "/evil",
		"/etc/cron.d/evil", "a/../../evil", "a\x00b", "", ".", "..",
		"a/", "./evil", "a//b", strings.Repeat("a/", 5000) + "evil", strings.Repeat("a", 5000),
		strings.Repeat("a", 256),
		"a/./b", "/", "a/..", "/workspace/evil"}
	for _, p := range escapes {
		run := tr.request(tr.attack.code)
		run.Request.Files = []sandbox.File{{Path: p, Data: []byte("evil")}}
		if _, err := tr.perform(tr.stepContext(), run); sandbox.KindOf(err) != sandbox.Invalid &&
			sandbox.KindOf(err) != sandbox.TooLarge {
			tr.fail("a file at %.60q: %v", p, err)
		}
		run = tr.request(nil)
		run.Request.Code, run.Request.Entry = nil, p
		if _, err := tr.perform(tr.stepContext(), run); err == nil && p != "" {
			tr.fail("code at %.60q runs", p)
		}
	}
	odd := []string{"....//evil"[:4] + "/evil", `C:\evil`, "a%00b", "%2e%2e/evil", "..%2fevil", "\u202eevil", "-rf",
		"con",
		" evil ", "evil\n"}
	run := tr.request([]byte("find /workspace -type f -not -name main.sh -printf 'one\\n'\n"))
	for _, p := range odd {
		run.Request.Files = append(run.Request.Files, sandbox.File{Path: p, Data: []byte("kept")})
	}
	r := tr.do(tr.stepContext(), run)
	if got := strings.Count(string(r.Stdout.Head), "one\n"); got != len(odd) {
		tr.fail("of %d odd names %d are in the workspace: %s %s", len(odd), got, r.Stdout.Head, r.Stderr.Head)
	}
	for _, g := range []string{"../*", "/etc/*", "a/../../*", "/**"} {
		run := tr.request(tr.attack.code)
		run.Request.Return.Globs = []string{g}
		if r, err := tr.perform(tr.stepContext(), run); sandbox.KindOf(err) != sandbox.Invalid || err == nil {
			tr.fail("the pattern %q: %v, %+v", g, err, r)
		}
	}
	tr.pathCalls(escapes)
}

// pathCalls makes every guest call with every spelling. They must end inside the sandbox or fail; the planted places
// show which.
func (tr *trial) pathCalls(spellings []string) {
	l := tr.open()
	defer l.close()
	ctx := tr.stepContext()
	for _, p := range spellings {
		for _, path := range []string{p, "/workspace/" + p} {
			_ = l.write(path, []byte("evil"))
			_ = l.unpack("/workspace", "evil", guest.FileInfo{Path: p, Type: guest.FileRegular})
			_ = l.MakeDir(ctx, guest.MakeDir{Path: path + "/folder", Parents: true})
			_, _ = l.Stat(ctx, guest.Stat{Path: path, Follow: true})
			if text, err := l.read(path); err == nil && tr.arena.canaries.Found([]byte(text)) != "" {
				tr.fail("%q reads the host", path)
			}
			_, _ = l.ListDir(ctx, guest.ListDir{Path: path, Limit: 10}, func(f guest.FileInfo) error {
				if strings.Contains(f.Path, tr.arena.canaries.marker) &&
					!strings.Contains(p, tr.arena.canaries.marker) {
					tr.fail("%q lists %s", path, f.Path)
				}
				return nil
			})
			_ = l.Move(ctx, guest.Move{From: path, To: "/workspace/there", Replace: true})
			_ = l.Move(ctx, guest.Move{From: "/workspace/there", To: path, Replace: true})
		}
	}
	if _, err := l.Stat(ctx, guest.Stat{Path: "/workspace"}); err != nil {
		tr.fail("the guest no longer answers: %v", err)
	}
}

// driveLinksOut is A02: links among the returned files.
func driveLinksOut(tr *trial) {
	r := tr.execute(tr.attack.code)
	if got := byPath(r); len(got) != 1 || got["real/kept"] != "kept\n" {
		tr.fail("returned: %q", got)
	}
	if len(r.Skipped) < 7 {
		tr.fail("left out: %+v", r.Skipped)
	}
	l := tr.open()
	defer l.close()
	c := tr.arena.canaries
	l.shell("cd /workspace; ln -s /etc/passwd out; ln -s " + c.files[0] + " canary; ln -s /proc/1/root/" + c.files[0] +
		" root; ln -s /proc/self/environ env; mkfifo pipe; ln -s pipe topipe")
	for _, name := range []string{"out", "canary", "root", "env"} {
		text, err := l.read("/workspace/" + name)
		if what := c.Found([]byte(text)); what != "" || err == nil && name != "out" && name != "env" {
			tr.fail("%s reads %q (%s)", name, text, what)
		}
		if name == "out" && err == nil && strings.Count(text, "\n") != strings.Count(l.shell("cat /etc/passwd"), "\n") {
			tr.fail("%s is not the sandbox's own: %q", name, text)
		}
	}
	for _, name := range []string{"pipe", "topipe"} { // a pipe without a writer must not block the guest
		if text, err := l.read("/workspace/" + name); err == nil {
			tr.fail("the pipe %s reads %q", name, text)
		}
	}
	_ = l.Pack(tr.stepContext(), guest.Pack{Base: sandbox.Workspace},
		func(info guest.FileInfo, content io.Reader) error {
			text, err := io.ReadAll(content)
			if len(text) > 0 {
				tr.fail("packing sends %d bytes for %s", len(text), info.Path)
			}
			return err
		})
}

// driveSlip is A07: entries that point outside.
func driveSlip(tr *trial) {
	l := tr.open()
	defer l.close()
	l.launch()
	file := func(path string) guest.FileInfo {
		return guest.FileInfo{Path: path, Type: guest.FileRegular, Mode: 0o644}
	}
	link := func(path, target string) guest.FileInfo {
		return guest.FileInfo{Path: path, Type: guest.FileSymlink, Target: target}
	}
	device := guest.FileInfo{Path: "dev", Type: guest.FileDevice, Mode: 0o666}
	host := tr.arena.canaries.places[0]
	for name, entries := range map[string][]guest.FileInfo{
		"up":          {file("../../../tmp/evil")},
		"absolute":    {file("/tmp/evil")},
		"inner up":    {file("sub/../../tmp/evil")},
		"planted":     {file("l/evil")},
		"planted far": {file("host/evil")},
		"own link":    {link("s", "/tmp"), file("s/evil")},
		"own folder":  {link("t", "../tmp"), {Path: "t/evil", Type: guest.FileDir, Mode: 0o755}},
		"far link":    {link("h", host), file("h/evil")},
		"empty":       {file("")},
		"dot":         {file(".")},
		"nul":         {file("a\x00b")},
		"device":      {device},
		"socket":      {{Path: "socket", Type: guest.FileSocket}},
		"long":        {file(strings.Repeat("a", 300))},
		"deep":        {file(strings.Repeat("a/", 3000) + "evil")},
	} {
		if err := l.unpack(sandbox.Workspace, "evil", entries...); err == nil {
			tr.fail("%s: it was unpacked", name)
		}
	}
	if err := l.unpack(sandbox.Workspace, "fine", guest.FileInfo{Path: "fine", Type: guest.FileRegular,
		Mode: 0o6755}); err != nil {
		tr.fail("an ordinary entry: %v", err)
	}
	info, err := l.Stat(tr.stepContext(), guest.Stat{Path: "/workspace/fine"})
	if err != nil || info.Mode != 0o755 || info.UID != sandbox.DefaultUser.UID {
		tr.fail("a file with set-id bits was made %+v, %v", info, err)
	}
	out := l.shell("find / -xdev -name 'evil*' 2>/dev/null; " +
		"find /tmp /workspace /etc /dev -name 'evil*' -o -name 'dev' -type c")
	if out != "" {
		tr.fail("there is %s", out)
	}
}

// driveOwners is A09: calls that change owner and mode, on links.
func driveOwners(tr *trial) {
	l := tr.open()
	defer l.close()
	l.launch()
	before := l.shell("stat -c '%n %a %u %g %s %Y' /etc/passwd /usr/bin/python3 /etc /usr")
	evil := "evil of " + tr.arena.canaries.marker // recognizable in a host file
	for _, name := range []string{"x", "y", "z", "w"} {
		_ = l.WriteFile(tr.stepContext(), guest.WriteFile{Path: "/workspace/" + name, Mode: 0o777},
			strings.NewReader(evil))
		_ = l.WriteFile(tr.stepContext(), guest.WriteFile{Path: "/workspace/" + name, Mode: 0o777, Truncate: true,
			Offset: 3},
			strings.NewReader(""))
		_ = l.write("/workspace/"+name, []byte(evil))
		_ = l.unpack(sandbox.Workspace, evil, guest.FileInfo{Path: name, Type: guest.FileRegular, Mode: 0o777})
	}
	if after := l.shell("stat -c '%n %a %u %g %s %Y' /etc/passwd /usr/bin/python3 /etc /usr"); after != before {
		tr.fail("before %s\nafter %s", before, after)
	}
}

// driveChanging is A10: reading files that change meanwhile.
func driveChanging(tr *trial) {
	l := tr.open()
	defer l.close()
	l.launch()
	rounds := 0
	for end := time.Now().Add(raceTime); time.Now().Before(end); rounds++ {
		err := l.Pack(tr.stepContext(), guest.Pack{Base: sandbox.Workspace},
			func(info guest.FileInfo, content io.Reader) error {
				n, err := io.Copy(io.Discard, content)
				if err == nil && info.Omitted == "" && info.Err == "" && info.Type == guest.FileRegular &&
					uint64(n) != info.Size {
					tr.fail("%s: %d bytes, %d were announced", info.Path, n, info.Size)
				}
				return err
			})
		if err != nil {
			tr.giveUp("pack: %v", err)
		}
		var b bytes.Buffer
		if info, err := l.ReadFile(tr.stepContext(), guest.ReadFile{Path: "/workspace/f"}, &b); err != nil ||
			uint64(b.Len()) > info.Size {
			tr.giveUp("read: %v; %d bytes of %d", err, b.Len(), info.Size)
		}
	}
	long, short := strings.Repeat("long", 1000), "short"
	for _, atomic := range []bool{true, false} {
		for _, text := range []string{long, short} {
			tr.need(l.WriteFile(tr.stepContext(), guest.WriteFile{Path: "/workspace/g", Atomic: atomic, Truncate: true},
				strings.NewReader(text)))
		}
		if got, err := l.read("/workspace/g"); err != nil || got != short {
			tr.fail("a shorter content left %d bytes, %v", len(got), err)
		}
	}
	tr.note("%d rounds", rounds)
}

// driveNames is A11: names of any bytes.
func driveNames(tr *trial) {
	r := tr.executeAndJudge(tr.attack.code)
	tr.checkJSON(r)
	seen := map[string]bool{}
	for _, f := range r.Files {
		seen[f.Path] = true
		if string(f.Data) != "content" {
			tr.fail("%q holds %q", f.Path, f.Data)
		}
	}
	for _, f := range r.Skipped {
		seen[f.Path] = true
	}
	for _, name := range []string{"-rf", "con", "<img src=x onerror=1>", strings.Repeat("a", 255), "a\nb\r\x1b[2J\xff",
		"\xc0\xae\xc0\xae", "*", "\x01"} {
		if !seen[name] {
			tr.fail("%q was neither returned nor reported as left out", name)
		}
	}
}

func byPath(r *sandbox.Result) map[string]string {
	files := map[string]string{}
	for _, f := range r.Files {
		files[f.Path] = string(f.Data)
	}
	return files
}

// driveReturned runs the probe and checks the limits on returned files.
func driveReturned(tr *trial) {
	r := tr.executeAndJudge(tr.attack.code)
	tr.checkJSON(r)
	var total int64
	for _, f := range r.Files {
		total += int64(len(f.Data))
	}
	if len(r.Files) > sandbox.DefaultReturnFiles || total > sandbox.DefaultReturnBytes {
		tr.fail("%d files with %d bytes were handed back", len(r.Files), total)
	}
	if len(r.Skipped) > 1100 {
		tr.fail("%d files are named as left out", len(r.Skipped))
	}
	tr.checkDuration("collecting", r.Timings.Files, 30*time.Second)
}

// The sandbox ends after somePieces of an upload. Fewer than manyPieces may be accepted afterwards, from buffers.
const (
	somePieces = 20
	manyPieces = 20_000
)

// driveLateUpload is A13: an upload into a sandbox that ends meanwhile. The end of the sandbox must end it, not the
// upload's own deadline.
func driveLateUpload(tr *trial) {
	l := tr.open()
	defer l.close()
	closed := make(chan error, 1)
	ended := false
	sent, late := 0, 0
	ctx := tr.stepContext()
	err := l.WriteFile(ctx, guest.WriteFile{Path: "/workspace/big", Atomic: true},
		readerFunc(func(p []byte) (int, error) {
			if sent++; sent == somePieces {
				go func() { closed <- l.box.Close(); close(closed) }()
			}
			if sent > somePieces {
				time.Sleep(time.Millisecond)
				ended = ended || len(closed) > 0
			}
			if ended {
				late++
			}
			if late > manyPieces {
				return 0, io.EOF
			}
			return len(p), nil
		}))
	if sent < somePieces {
		tr.giveUp("the upload failed before the sandbox ended: %v", err)
	}
	if err == nil || late > manyPieces || ctx.Err() != nil {
		tr.fail("an upload outlived its sandbox: %v after %d pieces, %d of them after the end", err, sent, late)
	}
	if err := <-closed; err != nil {
		tr.fail("close: %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if conn, err := l.box.Dial(ctx); err == nil {
		conn.Close()
		tr.fail("the closed sandbox is dialled")
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// drivePlanted is G04: file calls while programs are planted.
func drivePlanted(tr *trial) {
	l := tr.open()
	defer l.close()
	l.launch()
	ctx := tr.stepContext()
	check := func(what string, err error) {
		if err != nil {
			tr.fail("%s: %v", what, err)
		}
	}
	check("write", l.write("/workspace/sub/file", []byte("x")))
	_, err := l.read("/workspace/sub/file")
	check("read", err)
	check("make", l.MakeDir(ctx, guest.MakeDir{Path: "/workspace/a/b/c", Parents: true}))
	check("move", l.Move(ctx, guest.Move{From: "/workspace/sub/file", To: "/workspace/a/file"}))
	_, err = l.ListDir(ctx, guest.ListDir{Path: "/workspace", Depth: 5}, func(guest.FileInfo) error { return nil })
	check("list", err)
	check("pack", l.Pack(ctx, guest.Pack{Base: "/workspace"},
		func(_ guest.FileInfo, r io.Reader) error { _, err := io.Copy(io.Discard, r); return err }))
	check("unpack", l.unpack("/workspace", "x", guest.FileInfo{Path: "u", Type: guest.FileRegular}))
	check("remove", l.Remove(ctx, guest.Remove{Path: "/workspace/a", Recursive: true}))
	_, err = l.List(ctx)
	check("processes", err)
	if out := l.shell("/bin/ls /tmp | /bin/grep pwned"); out != "" {
		tr.fail("planted programs ran: %s", out)
	}
	check("kill", l.KillAll(ctx))
}

// driveSwap is G05: uploads while the code replaces every file that looks like a staged upload.
func driveSwap(tr *trial) {
	l := tr.open()
	defer l.close()
	l.launch()
	before := l.shell("cksum /etc/passwd /etc/hosts; ls -la /etc | cksum")
	whole, ctx := 0, tr.stepContext()
	for end := time.Now().Add(raceTime); (time.Now().Before(end) || whole == 0) && ctx.Err() == nil; {
		content := fmt.Sprintf("sent %d by %s", rand.Int(), tr.arena.canaries.marker)
		if l.write("/workspace/upload", []byte(content)) != nil {
			continue
		}
		if got, err := l.read("/workspace/upload"); err == nil && got == content {
			whole++
		}
		_ = l.unpack(sandbox.Workspace, content, guest.FileInfo{Path: "unpacked/deep", Type: guest.FileRegular})
	}
	if after := l.shell("cksum /etc/passwd /etc/hosts; ls -la /etc | cksum"); after != before {
		tr.fail("the sandbox's system was changed: %s %s", before, after)
	}
	if whole == 0 {
		tr.fail("no upload succeeded")
	}
}
