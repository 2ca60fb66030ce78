// Package lang lists the supported languages. Each is a value in a folder of its own. A new language is a folder and a
// line here.
package lang

import (
	"github.com/fumehood-dev/fumehood/internal/lang/bash"
	"github.com/fumehood-dev/fumehood/internal/lang/c"
	"github.com/fumehood-dev/fumehood/internal/lang/golang"
	"github.com/fumehood-dev/fumehood/internal/lang/java"
	"github.com/fumehood-dev/fumehood/internal/lang/javascript"
	"github.com/fumehood-dev/fumehood/internal/lang/lua"
	"github.com/fumehood-dev/fumehood/internal/lang/perl"
	"github.com/fumehood-dev/fumehood/internal/lang/php"
	"github.com/fumehood-dev/fumehood/internal/lang/python"
	"github.com/fumehood-dev/fumehood/internal/lang/r"
	"github.com/fumehood-dev/fumehood/internal/lang/ruby"
	"github.com/fumehood-dev/fumehood/internal/lang/rust"
	"github.com/fumehood-dev/fumehood/internal/lang/typescript"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// All returns all languages in display order. Those with contexts come first.
func All() []sandbox.Language {
	return []sandbox.Language{
		python.Language, javascript.Language, bash.Language, typescript.Language, ruby.Language, perl.Language,
		php.Language, lua.Language, r.Language, java.Language, golang.Language, rust.Language, c.C, c.CPP,
	}
}
