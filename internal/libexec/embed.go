//go:build embed

package libexec

import "embed"

// embedded holds the guest for every architecture that sandboxes may have; make build puts them there.
//
//go:embed bin/glovebox-guest-linux-amd64 bin/glovebox-guest-linux-arm64
var embedded embed.FS
