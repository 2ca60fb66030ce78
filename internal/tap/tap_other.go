//go:build !linux

package tap

import "github.com/glovebox-dev/glovebox/sandbox"

// Available says why this process can make no interfaces.
func Available() error {
	return &sandbox.Error{Kind: sandbox.Unsupported, Op: "network interface", Msg: "only Linux has network namespaces", Fix: "run glovebox on Linux"}
}
