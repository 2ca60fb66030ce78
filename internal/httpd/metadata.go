package httpd

import (
	"strings"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// ReservedMetadata begins the names of metadata in which E2B's wire keeps settings of its sandboxes: one opens ports to
// everybody. Requests can keep or remove them, but not set them.
const ReservedMetadata = "e2b."

// CheckMetadata refuses reserved names in the metadata of a request, except those that the sandbox has already.
func CheckMetadata(given, has map[string]string) error {
	for name, value := range given {
		if old, ok := has[name]; strings.HasPrefix(name, ReservedMetadata) && (!ok || old != value) {
			return sandbox.Invalidf("metadata", "%.80q: names that begin with %s are the server's", name,
				ReservedMetadata)
		}
	}
	return nil
}
