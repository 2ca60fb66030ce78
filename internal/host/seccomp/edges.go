//go:build linux

package seccomp

// Edges returns arguments at which a rule of a call changes its answer, with noise in the bits that the kernel ignores.
// For tests that compare a filter with the policy.
func (p *Policy) Edges(nr int) [][6]uint64 {
	all := [][6]uint64{{}, {^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0)}}
	passing := p.passing(nr)
	for _, r := range p.calls[nr].rules {
		for _, args := range passing {
			for _, v := range append([]uint32{0}, r.Values...) {
				args[r.Arg] = uint64(v)
				all = append(all, args)
			}
		}
		values := append([]uint32{0, 1, r.Mask}, r.Values...)
		for bit := range 32 {
			values = append(values, 1<<bit)
		}
		for _, v := range values {
			for _, delta := range []uint32{0, 1, ^uint32(0)} {
				for _, high := range []uint64{0, 1 << 32, 0xffffffff_00000000} {
					var args [6]uint64
					args[r.Arg] = high | uint64(v+delta)
					all = append(all, args)
					if r.When != nil {
						args[r.When.Arg] = high | uint64(r.When.Value)
						all = append(all, args)
					}
				}
			}
		}
	}
	return all
}

// passing returns arguments that pass the rules of a call that accept only certain values, in every combination, so
// that later rules are reached.
func (p *Policy) passing(nr int) [][6]uint64 {
	all := [][6]uint64{{}}
	for _, r := range p.calls[nr].rules {
		if r.Op != NotIn || r.When != nil {
			continue
		}
		var next [][6]uint64
		for _, args := range all {
			for _, v := range r.Values {
				args[r.Arg] = uint64(v)
				next = append(next, args)
			}
		}
		all = next
	}
	return all
}
