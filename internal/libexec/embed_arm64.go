//go:build embed

package libexec

import _ "embed"

// The files of bin that make build makes. They are strings because those are used in place: embed.FS would copy them at
// each start. All are compressed but the guest of this processor, which starts with each sandbox.
var (
	//go:embed bin/fumehood-guest-linux-arm64
	ownGuest string
	//go:embed bin/fumehood-guest-linux-amd64.zst
	otherGuest string // of an engine with other machines
	//go:embed bin/fumehood-typescript-linux-arm64.zst
	typescriptProgram string
)

func init() {
	embedded["fumehood-guest-linux-arm64"] = ownGuest
	embedded["fumehood-guest-linux-amd64"] = otherGuest
	embedded["fumehood-typescript-linux-arm64"] = typescriptProgram
}
