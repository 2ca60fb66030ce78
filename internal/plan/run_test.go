package plan

import (
	"testing"

	"github.com/fumehood-dev/fumehood/internal/lang/bash"
	"github.com/fumehood-dev/fumehood/internal/lang/python"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestPlainText: no program sees a byte order mark, and Bash no carriage return before a line feed, unless most lines
// have none.
func TestPlainText(t *testing.T) {
	for _, c := range []struct {
		lang       *sandbox.Language
		text, want string
	}{
		{&bash.Language, "if :\r\nthen\r\n:\nfi\r\n", "if :\nthen\n:\nfi\n"},
		{&bash.Language, "\ufeffecho\r\n", "echo\n"},
		{&bash.Language, "cat <<E\nA: b\r\nE\n", "cat <<E\nA: b\r\nE\n"},
		{&python.Language, "\ufeffprint()\r\n", "print()\r\n"},
	} {
		if got := string(plainText(c.lang, []byte(c.text))); got != c.want {
			t.Errorf("%s: %q became %q", c.lang.Name, c.text, got)
		}
	}
}
