package attack

import (
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Options configure an arena.
type Options struct {
	Backend  sandbox.Backend
	Image    string // root of the sandboxes, unless an attack has its own; "" is the backend's default
	Canaries *Canaries

	// Folders hold the backend's live state: nothing named after a sandbox may be left below them.
	Folders []string

	// Alone means that one attack runs at a time and little else runs in this process. Then its heap is measured (O01,
	// R11), and all system calls are made on a user-space kernel too, which takes most of a minute (K15).
	Alone bool

	// Languages are the languages of the probes; none means this package's Languages.
	Languages []sandbox.Language

	// Warm is the number of interpreters that wait to be forked, if the backend can fork. No box is kept warm.
	Warm int

	// Contexts runs the attacks as code in contexts of living sandboxes. Languages must have drivers.
	Contexts bool

	// WithoutWalls runs an attack's probe of system calls as root in namespaces, without a filter, and returns its
	// output. Only tests set it, as it makes an intentionally weak sandbox. May be nil.
	WithoutWalls func(a *Attack, calls string) (out string, err error)
}

// completeSpec returns a complete spec with the default limits.
func completeSpec() sandbox.Spec {
	return sandbox.Spec{ID: sandbox.NewID(), Limits: sandbox.DefaultLimits, User: sandbox.DefaultUser,
		Env: sandbox.DefaultEnv, Network: sandbox.NetworkPolicy{Mode: sandbox.NetworkNone}}
}
