package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// subject is a living sandbox and the client that works in it. One goroutine at a time uses it.
type subject struct {
	http     http.Client
	url      string // of the server
	name     string
	random   *rand.Rand
	packages bool // it may add packages
	count    int  // of names and values that were used

	known facts
	doubt facts  // what the act in progress changes; once a kill cut it off, the old and the new are both right
	run   string // id of the background run that the act in progress waits for: it must succeed

	acts, doubts int
}

// facts are what answers reported, in words, by a kind and a name: "file a", "value c1". "" is that there is no such
// thing. In doubt, unknown is whatever the server chose.
type facts map[string]string

const unknown = "*"

const callTimeout = time.Minute

func newSubject(url, name string, seed uint64, packages bool) *subject {
	return &subject{http: http.Client{Transport: &http.Transport{}, Timeout: callTimeout}, url: url + "/v1/sandboxes",
		name: name, random: rand.New(rand.NewPCG(seed, seed)), packages: packages}
}

// refused is an answer that reports a problem.
type refused struct {
	status int
	api.Problem
}

func (r *refused) Error() string { return fmt.Sprintf("HTTP %d: %s", r.status, r.Detail) }

// call makes a request below the sandbox, or with "" of it. The body is JSON, or bytes as they are. So is into, which
// may be nil.
func (s *subject) call(ctx context.Context, method, path string, body, into any) error {
	reader, raw := io.Reader(nil), false
	switch b := body.(type) {
	case nil:
	case []byte:
		reader, raw = bytes.NewReader(b), true
	default:
		text, err := json.Marshal(b)
		if err != nil {
			return err
		}
		reader = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, method, s.url+path, reader)
	if err != nil {
		return err
	}
	if reader != nil && !raw {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := s.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode >= 300 {
		r := &refused{status: response.StatusCode}
		_ = json.Unmarshal(text, &r.Problem) // a text without one is shown by its status
		return fmt.Errorf("%s %s%s: %w", method, s.name, path, r)
	}
	switch to := into.(type) {
	case nil:
		return nil
	case *[]byte:
		*to = text
		return nil
	}
	return json.Unmarshal(text, into)
}

// in makes a request below the sandbox.
func (s *subject) in(ctx context.Context, method, path string, body, into any) error {
	return s.call(ctx, method, "/"+s.name+path, body, into)
}

// create makes the sandbox, with rules that allow nothing.
func (s *subject) create(ctx context.Context) error {
	s.known, s.doubt = facts{}, facts{"sandbox": unknown}
	idle := 0.0
	r := api.SandboxRequest{Name: s.name, Metadata: map[string]string{mark: "0"}, Lifetime: api.Lifetime{IdleS: &idle},
		Env: map[string]string{mark: "subject"}}
	r.Network = *s.network()
	var made api.Sandbox
	if err := s.call(ctx, http.MethodPost, "", r, &made); err != nil {
		return err
	}
	s.known, s.doubt = factsOf(&made), facts{}
	return nil
}

func (s *subject) remove(ctx context.Context) error {
	return s.in(ctx, http.MethodDelete, "", nil, nil)
}

// factsOf are the facts that the description of a sandbox reports.
func factsOf(s *api.Sandbox) facts {
	f := facts{"sandbox": fmt.Sprint(s.ID, " ", s.CreatedAt.UnixMicro(), " ", s.Backend),
		"metadata": fmt.Sprint(s.Metadata), "network": networkFact(&s.Network),
		"lifetime": lifetime(s.Lifetime.EndsAt)}
	for _, c := range s.Contexts {
		f["context "+c.Name] = contextFact(&c)
		f["runs "+c.Name] = fmt.Sprint(c.Runs)
	}
	return f
}

func networkFact(n *api.Network) string {
	fact := fmt.Sprint(n.Mode, " ", n.Allow)
	for _, s := range n.Secrets {
		fact += fmt.Sprint(" ", s.Name, s.Hosts)
	}
	return fact
}

func lifetime(ends time.Time) string { return fmt.Sprint(ends.UnixMilli()) }

func contextFact(c *api.Context) string {
	return fmt.Sprint(c.Language, " ", c.Dir, " ", c.ID, " ", c.CreatedAt.UnixMicro())
}

func runFact(status sandbox.Status, exit *int) string {
	if exit == nil {
		return string(status)
	}
	return fmt.Sprint(status, " ", *exit)
}

// work makes acts until the server dies. The error is of an answer before that.
func (s *subject) work(ctx context.Context, dying *atomic.Bool) error {
	for !dying.Load() {
		s.doubt, s.run = facts{}, ""
		err := s.act(ctx)
		switch {
		case err == nil:
			s.acts++
			for name, fact := range s.doubt {
				s.known[name] = fact
			}
			s.doubt, s.run = facts{}, ""
		case dying.Load():
			s.doubts++
			return nil
		default:
			return err
		}
	}
	return nil
}

// compare compares what the next server reports with the known facts, and forgets the doubts.
func (s *subject) compare(ctx context.Context) error {
	defer s.http.CloseIdleConnections()
	if s.run != "" { // it goes on, and its effects are no longer in doubt
		if err := s.awaitRun(ctx, s.run); err != nil {
			return err
		}
		for name, fact := range s.doubt {
			if fact != unknown {
				s.known[name] = fact
				delete(s.doubt, name)
			}
		}
		s.run = ""
	}
	seen, err := s.observe(ctx)
	if err != nil {
		return err
	}
	var wrong []string
	for name, fact := range s.known {
		if fact == "" && strings.HasPrefix(name, "package ") {
			continue // its addition was cut off, and the server goes on with it
		}
		if is := seen[name]; is != fact && !s.mayBe(name, is) {
			wrong = append(wrong, fmt.Sprintf("%s of %s is %q, but an answer reported %q", name, s.name, is, fact))
		}
	}
	if len(wrong) > 0 {
		return fmt.Errorf("%s (cut off: %v)", strings.Join(wrong, "; "), s.doubt)
	}
	for name := range s.doubt {
		s.known[name] = seen[name]
	}
	if seen["sandbox"] == "" { // the removal in doubt was carried out
		return s.create(ctx)
	}
	s.doubt = facts{}
	return s.recount(ctx)
}

func (s *subject) mayBe(name, fact string) bool {
	doubted, is := s.doubt[name]
	return is && (doubted == unknown && fact != "" || doubted == fact)
}

// recount notes the number of runs after those of observe, and forgets old runs and attempts, as the server does.
func (s *subject) recount(ctx context.Context) error {
	var now api.Sandbox
	var list api.RunList
	err := errors.Join(s.in(ctx, http.MethodGet, "", nil, &now), s.in(ctx, http.MethodGet, "/runs", nil, &list))
	if err != nil {
		return err
	}
	for name, fact := range factsOf(&now) {
		s.known[name] = fact
	}
	kept := map[string]bool{}
	for _, run := range list.Runs[max(0, len(list.Runs)-remembered):] {
		kept[string(run.ID)] = true
	}
	for name := range s.known {
		kind, id, _ := strings.Cut(name, " ")
		if (kind == "run" || kind == "events") && !kept[id] {
			delete(s.known, name)
		}
	}
	if attempts := s.names("attempt"); len(attempts) > remembered {
		for _, id := range attempts {
			delete(s.known, "attempt "+id)
		}
	}
	return nil
}

// remembered is fewer runs and attempts than the server keeps, by those of one round.
const remembered = 30
