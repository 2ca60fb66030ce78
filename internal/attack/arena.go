package attack

import (
	"github.com/glovebox-dev/glovebox/sandbox"
)

// Options say what is attacked, and how.
type Options struct {
	Backend  sandbox.Backend
	Canaries *Canaries

	// Folders are those below which the backend keeps what lives: nothing that is named after a sandbox may be left there.
	Folders []string

	// Alone says that one attack is made at a time and that little else goes on in this process. Its heap is measured then (O01, R11),
	// and all system calls are made on a kernel in user space too, which takes most of a minute (K15).
	Alone bool

	// Languages are those that the probes are run with; none are Languages of this package.
	Languages []sandbox.Language

	// Warm is how many interpreters wait to be forked, where the backend can. No box is kept warm.
	Warm int

	// WithoutWalls runs an attack's probe as root in namespaces, without a filter, and returns what it printed. Only tests have it: it makes
	// a sandbox that is weak on purpose. May be nil.
	WithoutWalls func(a *Attack, params []string) (out string, err error)
}

// completeSpec is a complete spec with the default limits.
func completeSpec() sandbox.Spec {
	return sandbox.Spec{ID: sandbox.NewID(), Limits: sandbox.DefaultLimits, User: sandbox.DefaultUser,
		Env: sandbox.DefaultEnv, Network: sandbox.NetworkPolicy{Mode: sandbox.NetworkNone}}
}
