package httpd

import (
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestFormParts: a form has a bounded number of parts, of which some hundred kilobytes of gzip can hold millions.
func TestFormParts(t *testing.T) {
	text := strings.Repeat("--b\r\na:\r\n\r\n\r\n", maxParts+10) + "--b--\r\n"
	form := newForm(&Unpacking{cost: newCost()}, strings.NewReader(text), "b")
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

// TestFormReads: content that resembles the boundary comes in large pieces, like any other, and counts as work.
func TestFormReads(t *testing.T) {
	const near = "\r\n--by"
	u := &Unpacking{cost: newCost()}
	form := newForm(u, strings.NewReader("--b\r\na:\r\n\r\n"+strings.Repeat(near, 10_000)+"\r\n--b--\r\n"), "b")
	_, content, err := form.Next()
	if err != nil {
		t.Fatal(err)
	}
	n, err := content.Read(make([]byte, 1000*len(near)))
	if work := u.cost.unpaid.Load(); n != 1000*len(near) || err != nil || work == 0 {
		t.Errorf("%d bytes, %d ns of work: %v", n, work, err)
	}
}
