package native

import (
	"testing"

	"github.com/fumehood-dev/fumehood/internal/image"
	"github.com/fumehood-dev/fumehood/sandbox"
	"github.com/fumehood-dev/fumehood/test/backendtest"
)

func TestKeepsImage(t *testing.T) {
	backendtest.KeepsImage(t, func(images *image.Roots) sandbox.Backend {
		b := open(t, "")
		b.Images = images
		return b
	}, accepted()...)
}
