//go:build embed

package libexec

import _ "embed"

// The guest for every supported processor; make build puts them there. They are strings because those are used in
// place: embed.FS would copy 2.5 MB at every start.
var (
	//go:embed bin/fumehood-guest-linux-amd64
	guestAMD64 string
	//go:embed bin/fumehood-guest-linux-arm64
	guestARM64 string
)

func init() {
	embedded["fumehood-guest-linux-amd64"] = guestAMD64
	embedded["fumehood-guest-linux-arm64"] = guestARM64
}
