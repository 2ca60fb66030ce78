package tap

import (
	"errors"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// Policy returns the effective network policy of a sandbox that requested p.
func Policy(p sandbox.NetworkPolicy) sandbox.NetworkPolicy {
	if !p.Linked() {
		return sandbox.NetworkPolicy{Mode: sandbox.NetworkNone}
	}
	return p
}

// Detail describes the network of a sandbox's posture.
func Detail(linked bool) string {
	if linked {
		return "one interface, which ends in the gate"
	}
	return "loopback only"
}

// Wall reports whether this host supports sandboxes with a network.
func Wall() sandbox.Wall { return WallOf(Available()) }

// WallOf is Wall for a backend with its own requirements; err is the missing one.
func WallOf(err error) sandbox.Wall {
	w := sandbox.Wall{Name: "gate", State: sandbox.WallEnforced, Detail: "the networks restricted and full can be had"}
	if err != nil {
		w.State, w.Detail, w.Fix = sandbox.WallMissing, "only the network none: "+err.Error(), sandbox.FixOf(err)
		var e *sandbox.Error
		if errors.As(err, &e) && e.Msg != "" {
			w.Detail = "only the network none: " + e.Msg
		}
	}
	return w
}

// None returns the error for the outer end of a sandbox without a network.
func None() error {
	return &sandbox.Error{Kind: sandbox.Unsupported, Op: "network interface",
		Msg: "the sandbox was created without a network"}
}
