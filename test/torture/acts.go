package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// act makes one random change. Before each request it notes in doubt what the request changes, and after the answer
// what only that reports.
func (s *subject) act(ctx context.Context) error {
	s.count++
	acts := []func(context.Context) error{s.assign, s.assign, s.assign, s.assignBehind, s.addContext, s.deleteContext,
		s.restartContext, s.command, s.command, s.commandBehind, s.write, s.write, s.move, s.delete, s.patch, s.patch,
		s.patch, s.attempt, s.readEvents}
	if s.packages {
		acts = append(acts, s.addPackage)
	}
	if s.random.IntN(meanLife) == 0 {
		return s.replace(ctx)
	}
	return acts[s.random.IntN(len(acts))](ctx)
}

// names returns the known names of a kind that are there, in order.
func (s *subject) names(kind string) (list []string) {
	for _, key := range slices.Sorted(maps.Keys(s.known)) {
		if name, ok := strings.CutPrefix(key, kind+" "); ok && s.known[key] != "" {
			list = append(list, name)
		}
	}
	return list
}

// pick returns a random name of a kind, or "".
func (s *subject) pick(kind string) string {
	list := s.names(kind)
	if len(list) == 0 {
		return ""
	}
	return list[s.random.IntN(len(list))]
}

func (s *subject) language(context string) string {
	if fact := s.known["context "+context]; fact != "" {
		return strings.Fields(fact)[0]
	}
	return "python"
}

// assign sets the variable v of a context.
func (s *subject) assign(ctx context.Context) error {
	name := s.pick("context")
	if name == "" || s.random.IntN(8) == 0 {
		name = sandbox.DefaultContext
	}
	s.expectRun(name)
	return s.finished(ctx, inContext(name, s.language(name), s.code(name, "")), 0)
}

// code assigns the next value after a pause.
func (s *subject) code(context, pause string) string {
	s.doubt["value "+context] = fmt.Sprint(s.count)
	if s.language(context) == "bash" {
		return fmt.Sprintf("sleep 0%s; v=%d", pause, s.count)
	}
	return fmt.Sprintf("import time; time.sleep(0%s); v = %d", pause, s.count)
}

// expectRun notes that a context, if it is new, begins, and that it counts a run.
func (s *subject) expectRun(name string) {
	var runs int
	_, _ = fmt.Sscan(s.known["runs "+name], &runs) // 0 if it is new
	s.doubt["runs "+name] = fmt.Sprint(runs + 1)
	if s.known["context "+name] == "" {
		s.doubt["context "+name], s.doubt["runs "+name] = unknown, unknown
	}
}

func inContext(name, language, code string) (r api.SandboxRunRequest) {
	r.Context, r.Language, r.Code = name, language, &code
	return r
}

func ofCommand(words ...string) (r api.SandboxRunRequest) {
	r.Command = words
	return r
}

// finished runs to the end, and notes the run.
func (s *subject) finished(ctx context.Context, r api.SandboxRunRequest, exit int) error {
	var a api.Answer
	if err := s.in(ctx, http.MethodPost, "/run", r, &a); err != nil {
		return err
	}
	if a.ExitCode == nil || *a.ExitCode != exit {
		return s.unexpected(&a)
	}
	s.doubt["run "+string(a.ID)] = runFact(a.Status, a.ExitCode)
	return s.nameContext(ctx, r.Context)
}

func (s *subject) unexpected(a *api.Answer) error {
	hint := ""
	if a.Hint != nil {
		hint = *a.Hint
	}
	return fmt.Errorf("the run %s in %s ended as %s: %s%s", a.ID, s.name, a.Status, a.Stderr, hint)
}

// nameContext notes the description of a context that a run made.
func (s *subject) nameContext(ctx context.Context, name string) error {
	if s.doubt["context "+name] != unknown {
		return nil
	}
	var now api.Sandbox
	if err := s.in(ctx, http.MethodGet, "", nil, &now); err != nil {
		return err
	}
	for _, kind := range []string{"context ", "runs "} {
		s.doubt[kind+name] = factsOf(&now)[kind+name]
	}
	return nil
}

// behind runs in the background and waits for the end. A kill after the first answer must not stop it.
func (s *subject) behind(ctx context.Context, r api.SandboxRunRequest) error {
	r.Background = true
	var run api.Run
	if err := s.in(ctx, http.MethodPost, "/run", r, &run); err != nil {
		return err
	}
	s.run = string(run.ID)
	if err := s.awaitRun(ctx, s.run); err != nil {
		return err
	}
	return s.nameContext(ctx, r.Context)
}

func (s *subject) awaitRun(ctx context.Context, id string) error {
	for {
		var run api.Run
		err := s.patiently(ctx, func() error { return s.in(ctx, http.MethodGet, "/runs/"+id, nil, &run) })
		switch {
		case err != nil:
			return err
		case run.Status == sandbox.StatusSucceeded:
			s.doubt["run "+id] = runFact(run.Status, run.ExitCode)
			return nil
		case run.Status != sandbox.StatusRunning:
			return fmt.Errorf("the background run %s of %s ended as %s", id, s.name, run.Status)
		}
		time.Sleep(checkPoll)
	}
}

func (s *subject) assignBehind(ctx context.Context) error {
	name := s.pick("context")
	if name == "" {
		name = sandbox.DefaultContext
	}
	s.expectRun(name)
	return s.behind(ctx, inContext(name, s.language(name),
		s.code(name, fmt.Sprintf(".%d", s.random.IntN(3)))))
}

const mostContexts = 4

func (s *subject) addContext(ctx context.Context) error {
	if len(s.names("context")) >= mostContexts {
		return s.deleteContext(ctx)
	}
	r := api.ContextRequest{Name: fmt.Sprintf("c%d", s.count), Language: []string{"python", "bash"}[s.random.IntN(2)]}
	s.doubt["context "+r.Name], s.doubt["runs "+r.Name] = unknown, "0"
	var c api.Context
	if err := s.in(ctx, http.MethodPost, "/contexts", r, &c); err != nil {
		return err
	}
	s.doubt["context "+r.Name] = contextFact(&c)
	return nil
}

func (s *subject) deleteContext(ctx context.Context) error {
	name := s.pick("context")
	if name == "" {
		return nil
	}
	s.doubt["context "+name], s.doubt["value "+name], s.doubt["runs "+name] = "", "", ""
	return s.in(ctx, http.MethodDelete, "/contexts/"+name, nil, nil)
}

func (s *subject) restartContext(ctx context.Context) error {
	name := s.pick("context")
	if name == "" {
		return nil
	}
	s.doubt["context "+name], s.doubt["value "+name] = unknown, ""
	if err := s.in(ctx, http.MethodPost, "/contexts/"+name+"/restart", nil, nil); err != nil {
		return err
	}
	return s.nameContext(ctx, name)
}

// file chooses a file, and its next content.
func (s *subject) file() (path, content string) {
	path, content = fmt.Sprintf("f%d", s.random.IntN(6)), fmt.Sprintf("content %d\n", s.count)
	s.doubt["file "+path] = content
	return path, content
}

func (s *subject) command(ctx context.Context) error {
	path, content := s.file()
	exit := s.random.IntN(3)
	return s.finished(ctx, ofCommand("sh", "-c",
		fmt.Sprintf("printf '%%s' '%s' > %s; exit %d", content, path, exit)), exit)
}

func (s *subject) commandBehind(ctx context.Context) error {
	path, content := s.file()
	return s.behind(ctx, ofCommand("sh", "-c",
		fmt.Sprintf("sleep 0.%d; echo some; printf '%%s' '%s' > %s", s.random.IntN(3), content, path)))
}

func (s *subject) write(ctx context.Context) error {
	path, content := s.file()
	return s.in(ctx, http.MethodPut, "/files/"+path, []byte(content), nil)
}

func (s *subject) move(ctx context.Context) error {
	from := s.pick("file")
	if from == "" {
		return nil
	}
	to := fmt.Sprintf("m%d", s.random.IntN(6))
	if s.known["file "+to] != "" {
		return nil
	}
	s.doubt["file "+from], s.doubt["file "+to] = "", s.known["file "+from]
	return s.in(ctx, http.MethodPost, "/move", map[string]string{"from": from, "to": to}, nil)
}

func (s *subject) delete(ctx context.Context) error {
	path := s.pick("file")
	if path == "" {
		return nil
	}
	s.doubt["file "+path] = ""
	return s.in(ctx, http.MethodDelete, "/files/"+path, nil, nil)
}

// patch changes the metadata, the lifetime or the rules.
func (s *subject) patch(ctx context.Context) error {
	var p api.SandboxPatch
	switch s.random.IntN(3) {
	case 0:
		p.Metadata = map[string]string{mark: fmt.Sprint(s.count)}
		s.doubt["metadata"] = fmt.Sprint(p.Metadata)
	case 1:
		p.Lifetime.EndsAt = time.Now().Add(time.Hour).Truncate(time.Second)
		s.doubt["lifetime"] = lifetime(p.Lifetime.EndsAt)
	default:
		p.Network = s.network()
		s.doubt["network"] = networkFact(p.Network)
	}
	return s.in(ctx, http.MethodPatch, "", p, nil)
}

// network returns new rules, which also bind the secret of the sandbox.
func (s *subject) network() *api.Network {
	return &api.Network{Mode: sandbox.NetworkRestricted, Allow: []string{fmt.Sprintf("%d.example", s.count)},
		Secrets: []api.Secret{{Name: "TORTURE_SECRET", Hosts: []string{fmt.Sprintf("s%d.example", s.count)},
			Value: "a value that no server keeps"}}}
}

// attempt lets the gate refuse a connection, and reads the log.
func (s *subject) attempt(ctx context.Context) error {
	err := s.finished(ctx, ofCommand("bash", "-c",
		fmt.Sprintf(": > /dev/tcp/192.0.2.1/%d", 1000+s.count%60000)), 1)
	if err != nil {
		return err
	}
	var report api.NetworkReport
	if err := s.in(ctx, http.MethodGet, "/network?last=3", nil, &report); err != nil {
		return err
	}
	for _, a := range report.Attempts {
		s.doubt[fmt.Sprint("attempt ", a.ID)] = attemptFact(&a)
	}
	return nil
}

func attemptFact(a *api.NetworkAttempt) string {
	return fmt.Sprint(a.Protocol, " ", a.Address, " ", a.Port, " ", a.Time.UnixMicro())
}

// readEvents reads the events of a run.
func (s *subject) readEvents(ctx context.Context) error {
	id := s.pick("run")
	if id == "" {
		return nil
	}
	fact, err := s.events(ctx, id)
	s.doubt["events "+id] = fact
	return err
}

func (s *subject) events(ctx context.Context, id string) (string, error) {
	var text []byte
	err := s.in(ctx, http.MethodGet, "/runs/"+id+"/events", nil, &text)
	return fmt.Sprintf("%x", sha256.Sum256(text)), err
}

// addPackage installs one of the packages of wheels.
func (s *subject) addPackage(ctx context.Context) error {
	name := wheelNames[s.random.IntN(len(wheelNames))]
	s.doubt["package "+name] = name
	s.expectRun(sandbox.DefaultContext)
	return s.finished(ctx, inContext(sandbox.DefaultContext, "python", "%pip install "+name), 0)
}

// meanLife is how many acts there are, on average, between two replacements of a sandbox.
const meanLife = 60

// replace removes the sandbox and makes another one of its name.
func (s *subject) replace(ctx context.Context) error {
	for name := range s.known {
		s.doubt[name] = ""
	}
	if err := s.remove(ctx); err != nil {
		return err
	}
	return s.create(ctx)
}
