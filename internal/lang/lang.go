// Package lang lists the supported languages. Each is a plain value in a folder of its own; a new one is a folder and a line here.
package lang

import (
	"github.com/glovebox-dev/glovebox/internal/lang/bash"
	"github.com/glovebox-dev/glovebox/internal/lang/javascript"
	"github.com/glovebox-dev/glovebox/internal/lang/python"
	"github.com/glovebox-dev/glovebox/sandbox"
)

// All returns every language, in display order.
func All() []sandbox.Language {
	return []sandbox.Language{python.Language, javascript.Language, bash.Language}
}
