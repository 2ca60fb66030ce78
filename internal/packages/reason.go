package packages

import (
	"slices"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// Reason is why a package is in a layer.
type Reason struct {
	Layer   Layer
	Version string
	Asked   bool     // it was asked for by name
	By      []string // the packages of the layer that require it
}

// Why finds a package in all layers, the most recently used first. Names are compared as the index of the layer's language compares them.
func (c *Cache) Why(name string, languages []sandbox.Language) ([]Reason, error) {
	list, err := c.List()
	if err != nil {
		return nil, err
	}
	slices.Reverse(list)
	var reasons []Reason
	for _, l := range list {
		in := &sandbox.Installer{}
		if i := slices.IndexFunc(languages, func(known sandbox.Language) bool { return known.Name == l.Language && known.Installer != nil }); i >= 0 {
			in = languages[i].Installer
		}
		isIt := func(requirement string) bool { return in.NameOf(requirement) == in.NameOf(name) }
		for _, p := range l.Packages {
			if !isIt(p.Name) {
				continue
			}
			r := Reason{Layer: l, Version: p.Version, Asked: slices.ContainsFunc(l.Asked, isIt)}
			for _, other := range l.Packages {
				if slices.ContainsFunc(other.Requires, isIt) {
					r.By = append(r.By, other.Name)
				}
			}
			reasons = append(reasons, r)
		}
	}
	return reasons, nil
}
