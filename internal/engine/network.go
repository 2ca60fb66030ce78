package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/fumehood-dev/fumehood/internal/diagnose"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// maxRefusals is how many refused destinations a hint names.
const maxRefusals = 5

// openNetwork lets the sandbox's network, if it has one, end in a gate. Until then nothing passes.
func (s *Sandbox) openNetwork(ctx context.Context) error {
	spec := s.spec()
	if !spec.Network.Linked() {
		return nil
	}
	linker, ok := s.box.(sandbox.Linker)
	if !ok || s.engine.config.Gate == nil {
		return noNetwork(s.backend.Name())
	}
	end, err := linker.Link(ctx)
	if err != nil {
		return err
	}
	s.passage, err = s.engine.config.Gate.Open(end, spec, s.owner, func(p any) {
		_ = s.engine.panicked("pass the network of "+string(spec.ID), p)
	})
	return err
}

// networkRules is what completes the rules of networks.
func networkRules(g sandbox.Gate) func(*sandbox.NetworkPolicy) error {
	if g == nil {
		return nil
	}
	return g.Complete
}

func noNetwork(backend string) error {
	return &sandbox.Error{Kind: sandbox.Unsupported, Op: "network", Msg: "the " + backend +
		" backend gives sandboxes no network here",
		Fix: "leave the network at none", Fixes: []sandbox.Hint{sandbox.FixCheckHost}}
}

// closeNetwork closes the sandbox's passage, if it has one. From then on nothing passes.
func (s *Sandbox) closeNetwork() {
	if s.passage == nil {
		return
	}
	if err := s.passage.Close(); err != nil {
		s.engine.log.Warn("could not close the network of a sandbox", "sandbox", s.id, "err", err)
	}
}

// attempts is how many attempts the sandbox has made to reach something.
func (s *Sandbox) attempts() uint64 {
	if s.passage == nil {
		return 0
	}
	return s.passage.Position()
}

// network returns what the sandbox tried to reach during the run, and could not.
func (x *Run) network() diagnose.Network {
	p := x.sandbox.passage
	if p == nil {
		return diagnose.Network{}
	}
	return diagnose.Network{Refusals: p.Refusals(x.attempts, maxRefusals),
		Failures:  p.Failures(x.attempts, maxRefusals),
		Misplaced: p.Misplaced(x.attempts, maxRefusals)}
}

// Network returns what the sandbox tried to reach, and the policy. Unsupported: it has no network.
func (s *Sandbox) Network() (sandbox.NetworkPolicy, sandbox.NetworkLog, error) {
	if err := s.Ended(); err != nil {
		return sandbox.NetworkPolicy{}, nil, err
	}
	policy := s.spec().Network
	if s.passage == nil {
		return policy, nil, &sandbox.Error{
			Kind: sandbox.Unsupported, Op: "sandbox " + s.label(), Msg: "it has no network",
			Fix: "create one with network restricted or full"}
	}
	return policy, s.passage, nil
}

// newNetwork completes new rules of the sandbox's network. A sandbox that was made without a network gets none.
func (s *Sandbox) newNetwork(p sandbox.NetworkPolicy) (sandbox.NetworkPolicy, error) {
	old, _, err := s.Network()
	if err == nil && (p.Mode == "" || p.Mode == sandbox.NetworkNone) {
		err = sandbox.Invalidf("network.mode",
			"mode none is not supported after creation; use restricted with an empty allow list")
	}
	if err == nil {
		err = s.keepSecrets(&p)
	}
	if err == nil {
		rules := s.engine.rulesOf(s.owner)
		err = rules.CheckNetwork(&p)
	}
	p.Former = formerSecrets(&old, &p)
	return p, err
}

// checkWithoutValue refuses a policy that sends a secret to new hosts or in new headers, by somebody who does not give
// the value: it would come to a host of theirs.
func checkWithoutValue(at int, before, after *sandbox.Secret) error {
	for i, host := range after.Hosts {
		if !slices.Contains(before.Hosts, host) {
			return sandbox.Invalidf(fmt.Sprintf("network.secrets[%d].hosts[%d]", at, i),
				"%.80q is a new host of %s; give the value of the secret again", host, after.Name)
		}
	}
	if len(after.Headers) == 0 && len(before.Headers) > 0 {
		return sandbox.Invalidf(fmt.Sprintf("network.secrets[%d].headers", at),
			"%s may be only in %s; give these headers, or the value of the secret again",
			after.Name, strings.Join(before.Headers, ", "))
	}
	for i, header := range after.Headers {
		if !slices.Contains(before.Headers, header) {
			return sandbox.Invalidf(fmt.Sprintf("network.secrets[%d].headers[%d]", at, i),
				"%.80q is a new header of %s; give the value of the secret again", header, after.Name)
		}
	}
	for i, place := range after.Places {
		if !slices.Contains(before.Places, place) {
			return sandbox.Invalidf(fmt.Sprintf("network.secrets[%d].places[%d]", at, i),
				"%.80q is a new place of %s; give the value of the secret again", place, after.Name)
		}
	}
	return nil
}

// keepSecrets gives a new policy what the sandbox was made with: its authority, its placeholders, and values that are
// not given again. It refuses a policy that gives some values and keeps others. The gate hides overlapping values as
// one, so somebody who may choose a value again and again could find another one, character by character.
func (s *Sandbox) keepSecrets(p *sandbox.NetworkPolicy) error {
	old := s.spec().Network
	if p.Reads() && old.Authority == nil {
		return sandbox.Invalidf("network",
			"TLS inspection must be enabled when the sandbox is created: give inspect or secrets then")
	}
	p.Authority = old.Authority
	given, kept := false, -1
	for i := range p.Secrets {
		one := &p.Secrets[i]
		had := slices.IndexFunc(old.Secrets, func(s sandbox.Secret) bool { return s.Name == one.Name })
		if had < 0 {
			return sandbox.Invalidf(fmt.Sprintf("network.secrets[%d]", i),
				"a secret cannot be added after creation: the sandbox has no placeholder for %.64q", one.Name)
		}
		before := &old.Secrets[had]
		one.Placeholder = before.Placeholder
		if one.Value != "" {
			given = true
			continue
		}
		if err := checkWithoutValue(i, before, one); err != nil {
			return err
		}
		if one.Value = before.Value; one.Value != "" {
			kept = i
		}
	}
	if given && kept >= 0 {
		e := sandbox.Invalidf(fmt.Sprintf("network.secrets[%d].value", kept),
			"%s has no value, and another secret has one", p.Secrets[kept].Name)
		e.Fix = "give the values of all secrets, or of none"
		return e
	}
	return nil
}

// Limits of the earlier secrets of a sandbox, of which the newest are kept.
const (
	maxFormerSecrets = 64
	maxFormerBytes   = 64 << 10 // of values
	maxFormerHosts   = 1000
)

// formerSecrets returns the secrets of a policy and of earlier ones whose values or hosts the next policy lacks: a host
// may have stored such a value.
func formerSecrets(old, next *sandbox.NetworkPolicy) (list []sandbox.Secret) {
	covers := func(by, s sandbox.Secret) bool {
		return by.Value == s.Value && !slices.ContainsFunc(s.Hosts, func(host string) bool {
			return !slices.Contains(by.Hosts, host)
		})
	}
	size, hosts := 0, 0
	for _, s := range slices.Backward(slices.Concat(old.Former, old.Secrets)) { // the newest first
		covered := func(by sandbox.Secret) bool { return covers(by, s) }
		if s.Value == "" || slices.ContainsFunc(next.Secrets, covered) || slices.ContainsFunc(list, covered) {
			continue
		}
		size, hosts = size+len(s.Value), hosts+len(s.Hosts)
		if len(list) == maxFormerSecrets || size > maxFormerBytes || hosts > maxFormerHosts {
			break
		}
		list = append(list, s)
	}
	slices.Reverse(list)
	return list
}
