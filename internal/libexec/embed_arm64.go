//go:build embed

package libexec

import _ "embed"

//go:embed bin/fumehood-typescript-linux-arm64
var typescriptProgram string

// Sandboxes nearly always have this program's own processor.
func init() { embedded["fumehood-typescript-linux-arm64"] = typescriptProgram }
