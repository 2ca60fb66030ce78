package egress

import (
	"errors"
	"io"
	"os"
	"slices"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// Host is the sandbox.Gate that dials out from this host. Its options are those of each gate that it opens; Rules and Log are not used.
type Host struct {
	Options Options

	tally tally
}

// Total implements sandbox.Gate.
func (h *Host) Total() Total {
	h.tally.mu.Lock()
	defer h.tally.mu.Unlock()
	return h.tally.total
}

// Complete implements sandbox.Gate.
func (h *Host) Complete(p *sandbox.NetworkPolicy) error {
	if _, err := Compile(*p); err != nil {
		return err
	}
	p.Secrets = slices.Clone(p.Secrets)
	for i := range p.Secrets {
		if s := &p.Secrets[i]; s.Placeholder == "" {
			s.Placeholder = newPlaceholder()
		}
	}
	if p.Authority != nil || !p.Reads() {
		return nil
	}
	var err error
	p.Authority, err = newAuthority()
	return err
}

// Open implements sandbox.Gate. The end must be the *os.File of a TAP device.
func (h *Host) Open(end io.ReadWriteCloser, p sandbox.NetworkPolicy) (sandbox.Passage, error) {
	file, ok := end.(*os.File)
	if !ok {
		_ = end.Close() // it is of no use
		return nil, &sandbox.Error{Kind: sandbox.Unsupported, Op: "gate", Msg: "the end of this network is not a device"}
	}
	rules, err := Compile(p)
	if err != nil {
		_ = file.Close() // nothing was written to it
		return nil, err
	}
	o := h.Options
	o.Rules, o.Log, o.Authority = rules, &Log{tally: &h.tally}, p.Authority
	g, err := Open(file, o)
	if err != nil {
		return nil, err
	}
	return &passage{gate: g, Log: o.Log}, nil
}

// passage is a gate with its log.
type passage struct {
	gate *Gate
	*Log

	journal *journal // nil until Keep
}

func (p *passage) SetPolicy(policy sandbox.NetworkPolicy) error {
	rules, err := Compile(policy)
	if err == nil {
		p.gate.SetRules(rules)
	}
	return err
}

func (p *passage) Current() []Attempt { return p.gate.Current() }

func (p *passage) Keep(dir string) (err error) {
	p.journal, err = openJournal(p.Log, dir, journalPace)
	return err
}

func (p *passage) Close() error {
	err := p.gate.Close()
	if p.journal != nil {
		err = errors.Join(err, p.journal.close())
	}
	return err
}
