// Package lang lists the supported languages. Each is a plain value in a folder of its own; a new one is a folder and a line here.
package lang

import (
	"github.com/glovebox-dev/glovebox/internal/lang/bash"
	"github.com/glovebox-dev/glovebox/internal/lang/c"
	"github.com/glovebox-dev/glovebox/internal/lang/golang"
	"github.com/glovebox-dev/glovebox/internal/lang/java"
	"github.com/glovebox-dev/glovebox/internal/lang/javascript"
	"github.com/glovebox-dev/glovebox/internal/lang/lua"
	"github.com/glovebox-dev/glovebox/internal/lang/perl"
	"github.com/glovebox-dev/glovebox/internal/lang/php"
	"github.com/glovebox-dev/glovebox/internal/lang/python"
	"github.com/glovebox-dev/glovebox/internal/lang/r"
	"github.com/glovebox-dev/glovebox/internal/lang/ruby"
	"github.com/glovebox-dev/glovebox/internal/lang/rust"
	"github.com/glovebox-dev/glovebox/internal/lang/typescript"
	"github.com/glovebox-dev/glovebox/sandbox"
)

// All returns every language, in display order: first those with contexts.
func All() []sandbox.Language {
	return []sandbox.Language{
		python.Language, javascript.Language, bash.Language, typescript.Language, ruby.Language, perl.Language, php.Language, lua.Language,
		r.Language, java.Language, golang.Language, rust.Language, c.C, c.CPP,
	}
}
