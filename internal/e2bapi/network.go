package e2bapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// allTraffic is E2B's name for all destinations.
const allTraffic = "0.0.0.0/0"

// maxShownHosts is the most hosts that an error lists.
const maxShownHosts = 8

// network are the rules of a sandbox in E2B's form: all is allowed that is not denied, and AllowOut wins.
type network struct {
	AllowOut []string `json:"allowOut,omitempty"`
	DenyOut  []string `json:"denyOut,omitempty"`

	Internet *bool `json:"allow_internet_access,omitempty"` // of an update

	PublicTraffic *bool  `json:"allowPublicTraffic,omitempty"` // to ports
	MaskHost      string `json:"maskRequestHost,omitempty"`

	// Not supported: refused, as a sandbox without them would be open to more, or reach less.
	Rules map[string]json.RawMessage `json:"rules,omitempty"`
	Proxy json.RawMessage            `json:"egressProxy,omitempty"`
	DNS   []string                   `json:"dnsServers,omitempty"`
	HTTPS []int                      `json:"httpsPorts,omitempty"`
}

// maxNetwork is the most bytes of the JSON of a network, of which a decoder holds copies. A record has no more room.
const maxNetwork = 1 << 20

// UnmarshalJSON refuses unknown fields, which could restrict the network.
func (n *network) UnmarshalJSON(text []byte) error {
	if len(text) > maxNetwork {
		return errors.New("a network of more than " + sandbox.FormatBytes(maxNetwork))
	}
	type plain network
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	return d.Decode((*plain)(n))
}

// policy returns the policy of rules. With internet false, and nothing allowed, the sandbox has no network.
func (n *network) policy(internet *bool) (sandbox.NetworkPolicy, error) {
	if n == nil {
		n = &network{}
	}
	if len(n.Rules) > 0 || given(n.Proxy) || len(n.DNS) > 0 || len(n.HTTPS) > 0 {
		return sandbox.NetworkPolicy{}, &sandbox.Error{Kind: sandbox.Unsupported,
			Msg: "rules, proxies, DNS servers and HTTPS ports of a network are not supported"}
	}
	if err := sandbox.CheckRules(len(n.AllowOut) + len(n.DenyOut)); err != nil { // each is compared with each
		return sandbox.NetworkPolicy{}, err
	}
	if internet == nil {
		internet = n.Internet
	}
	offline := internet != nil && !*internet
	switch {
	case offline && len(n.AllowOut) == 0:
		return sandbox.NetworkPolicy{}, nil
	case offline || slices.Contains(n.DenyOut, allTraffic):
		return sandbox.NetworkPolicy{Mode: sandbox.NetworkRestricted, Allow: n.AllowOut}, nil
	}
	p := sandbox.NetworkPolicy{Mode: sandbox.NetworkFull}
	allowed := make([]netip.Prefix, len(n.AllowOut))
	for i, target := range n.AllowOut {
		allowed[i], _ = prefixOf(target) // none of a name
	}
	for _, target := range n.DenyOut {
		if slices.Contains(n.AllowOut, target) {
			continue
		}
		denied, err := prefixOf(target)
		if i := slices.IndexFunc(allowed, overlaps(denied)); err == nil && i >= 0 {
			return p, sandbox.Invalidf("network.allowOut",
				"%.80q is within the denied %.80q; deny %s, and allow the rest", n.AllowOut[i], target, allTraffic)
		}
		p.Deny = append(p.Deny, target)
	}
	for i, target := range n.AllowOut {
		if allowed[i].IsValid() { // a name is allowed already
			p.Allow = append(p.Allow, target)
		}
	}
	return p, nil
}

// checkInternet refuses the whole internet to an owner who may not have it. A client that names no network requests it.
func (f *face) checkInternet(owner string, p *sandbox.NetworkPolicy) error {
	_, _, ceiling := f.Engine().LimitsOf(owner)
	if p.Mode != sandbox.NetworkFull || ceiling == nil || ceiling.Mode == sandbox.NetworkFull {
		return nil
	}
	e := sandbox.Invalidf("network", "the operator of this server does not open the whole internet")
	if e.Fix = "set allow_internet_access=False"; ceiling.Mode == sandbox.NetworkRestricted {
		some := ceiling.Allow[:min(len(ceiling.Allow), maxShownHosts)]
		e.Fix += ", or deny ALL_TRAFFIC and allow hosts: " + strings.Join(some, ", ")
	}
	return e
}

// overlaps returns whether an allowed prefix could be within a denied one. A name, without a prefix, could have any
// address.
func overlaps(denied netip.Prefix) func(netip.Prefix) bool {
	return func(allowed netip.Prefix) bool { return !allowed.IsValid() || denied.Overlaps(allowed) }
}

// pairsOfStep is how many pairs of targets policy compares in the time of a step of work.
const pairsOfStep = 40

// steps is the work of policy.
func (n *network) steps() int {
	if n == nil {
		return 0
	}
	return len(n.AllowOut) * len(n.DenyOut) / pairsOfStep
}

func prefixOf(target string) (netip.Prefix, error) {
	if strings.Contains(target, "/") {
		return netip.ParsePrefix(target)
	}
	addr, err := netip.ParseAddr(target)
	if err != nil {
		return netip.Prefix{}, err
	}
	return addr.Prefix(addr.BitLen())
}

// ports puts what rules say about ports into the metadata of a new sandbox.
func (n *network) ports(metadata map[string]string) error {
	metadata[portsName] = portsPublic
	if n == nil {
		return nil
	}
	if n.PublicTraffic != nil && !*n.PublicTraffic {
		metadata[portsName] = portsPrivate
	}
	if n.MaskHost == "" {
		return nil
	}
	if len(n.MaskHost) > 255 || strings.Trim(strings.ReplaceAll(n.MaskHost, "${PORT}", ""),
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._:[]") != "" {
		return sandbox.Invalidf("network.maskRequestHost", "%.80q is not a host", n.MaskHost)
	}
	metadata[maskName] = n.MaskHost
	return nil
}

// networkOf describes the network of a sandbox in E2B's form.
func networkOf(p *sandbox.NetworkPolicy, metadata map[string]string) (n network, internet bool) {
	public := metadata[portsName] == portsPublic
	n = network{AllowOut: p.Allow, DenyOut: p.Deny, PublicTraffic: &public, MaskHost: metadata[maskName]}
	if p.Mode != sandbox.NetworkFull {
		n.DenyOut = append([]string{allTraffic}, p.Deny...)
	}
	return n, p.Linked()
}

// updateNetwork is PUT /sandboxes/{id}/network: it replaces all rules for what the sandbox reaches.
func (f *face) updateNetwork(w *httpd.Response, r *http.Request, s *engine.Sandbox) error {
	var req network
	release, err := f.ReadJSON(w, r, &req)
	defer release()
	if err != nil {
		return err
	}
	if req.PublicTraffic != nil || req.MaskHost != "" {
		return &sandbox.Error{Kind: sandbox.Unsupported,
			Msg: "allowPublicTraffic and maskRequestHost are fixed when a sandbox is created",
			Fix: "create another sandbox"}
	}
	policy, err := req.policy(nil)
	if err == nil {
		err = f.checkInternet(w.Key, &policy)
	}
	if err != nil {
		return err
	}
	w.Rules(&policy)
	w.Steps(req.steps())
	if policy.Mode == "" { // a sandbox keeps its interface
		policy.Mode = sandbox.NetworkRestricted
	}
	if err := s.Update(engine.Patch{Network: &policy}); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
