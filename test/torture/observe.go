package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// patience is how long a server may not reach a sandbox of an earlier one.
const patience = 30 * time.Second

// patiently repeats a request while the answer is 503: the server has not taken the sandbox over yet.
func (s *subject) patiently(ctx context.Context, try func() error) error {
	for began := time.Now(); ; time.Sleep(checkPoll) {
		err := try()
		if !isRefused(err, http.StatusServiceUnavailable) || time.Since(began) > patience || ctx.Err() != nil {
			return err
		}
	}
}

func isRefused(err error, status int) bool {
	var r *refused
	return errors.As(err, &r) && r.status == status
}

// observe returns what the server reports of all known and doubted facts. It is empty if there is no sandbox.
func (s *subject) observe(ctx context.Context) (facts, error) {
	var now api.Sandbox
	err := s.patiently(ctx, func() error { return s.in(ctx, http.MethodGet, "", nil, &now) })
	if isRefused(err, http.StatusNotFound) {
		return facts{}, nil
	}
	if err != nil {
		return nil, err
	}
	seen := factsOf(&now)
	all := maps.Clone(s.known)
	maps.Copy(all, s.doubt)
	for _, look := range []func(context.Context, facts) error{s.seeRuns, s.seeAttempts} {
		if err := look(ctx, seen); err != nil {
			return nil, err
		}
	}
	for name := range all {
		kind, of, _ := strings.Cut(name, " ")
		switch kind {
		case "file":
			seen[name], err = s.seeFile(ctx, of)
		case "value":
			seen[name], err = s.seeValue(ctx, of, seen["context "+of])
		case "package":
			seen[name], err = s.seePackage(ctx, of)
		case "events":
			if seen["run "+of] != "" {
				seen[name], err = s.events(ctx, of)
			}
		}
		if err != nil {
			return nil, err
		}
	}
	return seen, nil
}

func (s *subject) seeRuns(ctx context.Context, seen facts) error {
	var list api.RunList
	err := s.in(ctx, http.MethodGet, "/runs", nil, &list)
	for _, run := range list.Runs {
		seen["run "+string(run.ID)] = runFact(run.Status, run.ExitCode)
	}
	return err
}

func (s *subject) seeAttempts(ctx context.Context, seen facts) error {
	var report api.NetworkReport
	err := s.in(ctx, http.MethodGet, "/network?last=1000", nil, &report)
	for _, a := range report.Attempts {
		seen[fmt.Sprint("attempt ", a.ID)] = attemptFact(&a)
	}
	return err
}

func (s *subject) seeFile(ctx context.Context, path string) (string, error) {
	var text []byte
	err := s.in(ctx, http.MethodGet, "/files/"+path, nil, &text)
	if isRefused(err, http.StatusNotFound) {
		return "", nil
	}
	return string(text), err
}

// seeValue reads v of a context, whose description begins with its language.
func (s *subject) seeValue(ctx context.Context, context, description string) (string, error) {
	if description == "" {
		return "", nil
	}
	if strings.HasPrefix(description, "bash ") {
		return s.printed(ctx, inContext(context, "bash", `echo "$v"`))
	}
	return s.printed(ctx, inContext(context, "python", `print(globals().get("v", ""))`))
}

func (s *subject) seePackage(ctx context.Context, name string) (string, error) {
	return s.printed(ctx, ofCommand("python3", "-c",
		fmt.Sprintf("try:\n  import %s as p\n  print(p.name)\nexcept ImportError: pass", name)))
}

// printed runs to the end and returns the line that was printed.
func (s *subject) printed(ctx context.Context, r api.SandboxRunRequest) (string, error) {
	var a api.Answer
	if err := s.in(ctx, http.MethodPost, "/run", r, &a); err != nil {
		return "", err
	}
	if a.Status != sandbox.StatusSucceeded {
		return "", s.unexpected(&a)
	}
	return strings.TrimSuffix(a.Stdout, "\n"), nil
}
