package httpd

import (
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestFormParts: a form has a bounded number of parts, of which some hundred kilobytes of gzip can hold millions.
func TestFormParts(t *testing.T) {
	form := newForm(strings.NewReader(strings.Repeat("--b\r\na:\r\n\r\n\r\n", maxParts+10)+"--b--\r\n"), "b")
	for n := range maxParts + 1 {
		_, content, err := form.Next()
		if n < maxParts && err == nil {
			err = form.Skip(content)
		}
		if (sandbox.KindOf(err) == sandbox.TooLarge) != (n == maxParts) || n < maxParts && err != nil {
			t.Fatalf("part %d: %v", n, err)
		}
	}
}
