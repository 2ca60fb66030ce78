package deps

import "slices"

// Reason is why a package is in a layer.
type Reason struct {
	Layer   Layer
	Version string
	Asked   bool     // it was asked for by name
	By      []string // the packages of the layer that require it
}

// Why finds a package in all layers, the most recently used first. Names are compared as indexes compare them.
func (c *Cache) Why(name string) ([]Reason, error) {
	list, err := c.List()
	if err != nil {
		return nil, err
	}
	slices.Reverse(list)
	var reasons []Reason
	for _, l := range list {
		for _, p := range l.Packages {
			if !isFor(p.Name, name) {
				continue
			}
			r := Reason{Layer: l, Version: p.Version, Asked: slices.ContainsFunc(l.Asked, func(asked string) bool { return isFor(asked, name) })}
			for _, other := range l.Packages {
				if slices.ContainsFunc(other.Requires, func(r string) bool { return isFor(r, name) }) {
					r.By = append(r.By, other.Name)
				}
			}
			reasons = append(reasons, r)
		}
	}
	return reasons, nil
}
