//go:build embed

package libexec

import _ "embed"

//go:embed bin/fumehood-runsc-linux-amd64.zst
var runscProgram string

// runsc is large, and only useful on this program's own processor.
func init() { embedded["fumehood-runsc-linux-amd64"] = runscProgram }
