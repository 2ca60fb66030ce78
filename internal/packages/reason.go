package packages

import (
	"slices"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// Reason explains why a layer contains a package.
type Reason struct {
	Layer     Layer
	Version   string
	Requested bool     // by name
	By        []string // the packages of the layer that require it
}

// Why finds a package in all layers, the most recently used first. It compares names like the index of the layer's
// language.
func (c *Cache) Why(name string, languages []sandbox.Language) ([]Reason, error) {
	list, err := c.List()
	if err != nil {
		return nil, err
	}
	slices.Reverse(list)
	var reasons []Reason
	for _, l := range list {
		in := &sandbox.Installer{}
		for _, known := range languages {
			if known.Name == l.Language && known.Installer != nil {
				in = known.Installer
			}
		}
		isIt := func(requirement string) bool { return in.NameOf(requirement) == in.NameOf(name) }
		for _, p := range l.Packages {
			if !isIt(p.Name) {
				continue
			}
			r := Reason{Layer: l, Version: p.Version, Requested: slices.ContainsFunc(l.Requested, isIt)}
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
