//go:build !linux

package tap

import "github.com/fumehood-dev/fumehood/sandbox"

// Available returns the reason why this process can make no interfaces.
func Available() error {
	return &sandbox.Error{Kind: sandbox.Unsupported, Op: "network interface", Msg: "only Linux has network namespaces",
		Fix: "run fumehood on Linux"}
}
