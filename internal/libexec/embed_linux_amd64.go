//go:build embed

package libexec

import _ "embed"

//go:embed bin/glovebox-runsc-linux-amd64
var runscProgram string

// runsc is of use on this program's own processor only, and large.
func init() { embedded["glovebox-runsc-linux-amd64"] = runscProgram }
