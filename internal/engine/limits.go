package engine

import (
	"cmp"

	"github.com/fumehood-dev/fumehood/internal/plan"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// OwnerLimits replace limits of the configuration for one owner. A zero field keeps that of the configuration.
type OwnerLimits struct {
	Sandboxes int                         // living sandboxes at once
	Max       sandbox.Limits              // highest limits that a request may name
	Ceiling   *sandbox.NetworkCeiling     // of networks; unset fields are those of the configuration
	Images    func(reference string) bool // reports whether requests may name an image
}

// baseRules returns the rules of requests without an owner.
func (e *Engine) baseRules() *plan.Rules { return e.rules.Load() }

// rulesOf returns the rules of an owner's requests.
func (e *Engine) rulesOf(owner string) plan.Rules {
	rules := *e.baseRules()
	if e.config.OwnerLimits == nil {
		return rules
	}
	own := e.config.OwnerLimits(owner)
	rules.OwnMax = own.Max
	for _, name := range sandbox.LimitNames {
		if most := own.Max.Get(name); most > 0 {
			rules.Max.Set(name, most)
			rules.Defaults.Set(name, min(most, rules.Defaults.Get(name)))
		}
	}
	rules.Defaults.DiskBytes = min(rules.Defaults.DiskBytes, rules.Defaults.MemoryBytes)
	if own.Ceiling != nil {
		server := cmp.Or(rules.Ceiling, &sandbox.DefaultNetworkCeiling)
		rules.Ceiling = server.For(*own.Ceiling)
	}
	if own.Images != nil {
		rules.Images = own.Images
	}
	return rules
}

// LimitsOf returns the limits of an owner's requests: those of a request that names none, the highest, and the ceiling
// of networks; nil is no ceiling.
func (e *Engine) LimitsOf(owner string) (defaults, most sandbox.Limits, ceiling *sandbox.NetworkCeiling) {
	rules := e.rulesOf(owner)
	return rules.Defaults, rules.Max, rules.Ceiling
}

// ownLower returns the highest limits of an owner that are lower than those of requests without an owner.
func (e *Engine) ownLower(owner string) (lower sandbox.Limits) {
	if e.config.OwnerLimits == nil {
		return lower
	}
	all, own := e.baseRules().Max, e.rulesOf(owner).Max
	for _, name := range sandbox.LimitNames {
		if most := own.Get(name); most > 0 && (all.Get(name) == 0 || most < all.Get(name)) {
			lower.Set(name, most)
		}
	}
	return lower
}

// Offers reports whether an owner's requests may name an image.
func (e *Engine) Offers(owner, reference string) bool {
	rules := e.rulesOf(owner)
	return rules.Images == nil || rules.Images(reference)
}

// mostSandboxes returns how many living sandboxes an owner may have; 0 is no bound.
func (e *Engine) mostSandboxes(owner string) int {
	if e.config.OwnerLimits != nil {
		if most := e.config.OwnerLimits(owner).Sandboxes; most > 0 {
			return most
		}
	}
	return e.living.ownerMost
}

// SetLimits replaces the limits of requests that begin from now on by those of a configuration: Defaults, Max, Ceiling,
// Images, Shares, Living.Most and Living.OwnerMost. It ignores all other fields. Living sandboxes keep what they have.
// It returns Invalid, and changes nothing, if New would refuse the limits.
func (e *Engine) SetLimits(config Config) error {
	if err := checkLimits(&config); err != nil {
		return err
	}
	rules := *e.baseRules()
	rules.Defaults, rules.Max = config.Defaults, config.Max
	rules.Ceiling, rules.Images = config.Ceiling, config.Images
	e.rules.Store(&rules)
	e.setShares(&config)
	return nil
}

// setShares sets what all owners, and each, may take.
func (e *Engine) setShares(config *Config) {
	e.admission.share(config.OwnerSlots, config.OwnerQueue)
	e.living.making.share(config.OwnerSlots, 0)
	e.living.closing.share(config.OwnerSlots, 0)
	e.living.mu.Lock()
	defer e.living.mu.Unlock()
	e.living.most, e.living.ownerMost = config.Living.Most, config.Living.OwnerMost
	if e.living.most == 0 {
		e.living.most = DefaultSandboxes
	}
}
