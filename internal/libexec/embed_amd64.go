//go:build embed

package libexec

import _ "embed"

//go:embed bin/fumehood-typescript-linux-amd64
var typescriptProgram string

// Sandboxes nearly always have this program's own processor.
func init() { embedded["fumehood-typescript-linux-amd64"] = typescriptProgram }
