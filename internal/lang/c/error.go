package c

import (
	"strings"

	"github.com/fumehood-dev/fumehood/internal/lang/trace"
	"github.com/fumehood-dev/fumehood/sandbox"
)

const maxWhat = 20 // lines from the name of an exception to the end

func trimWhat(line string) string { return strings.TrimPrefix(line, "  what():  ") }

// symptoms matches messages of GCC and Clang.
var symptoms = trace.Symptoms{
	trace.On(sandbox.SymptomNoModule, `fatal error: '?([^:'\s]+)'?(?:: No such file or directory| file not found)`),
}
