package plan

import (
	"slices"
	"testing"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestOnImage: variables of an image are above the default ones, except those that name the sandbox's own places.
func TestOnImage(t *testing.T) {
	r := Rules{DefaultEnv: []string{"PATH=/bin:/home/agent/.local/bin", "HOME=/home/agent", "LANG=C"}}
	got := r.OnImage(sandbox.Image{Env: []string{"PATH=/opt/bin:/bin", "HOME=/root", "LANG=D", "A=1", "a.b=2", "bad"}})
	want := []string{"PATH=/opt/bin:/bin:/home/agent/.local/bin", "HOME=/home/agent", "LANG=D", "A=1"}
	if !slices.Equal(got.DefaultEnv, want) {
		t.Errorf("%q", got.DefaultEnv)
	}
	if r.DefaultEnv[2] != "LANG=C" {
		t.Error("the rules of other sandboxes changed")
	}
}

// TestWithCommand: without code and a command, the command of the image runs; arguments replace those of the image.
func TestWithCommand(t *testing.T) {
	image := sandbox.Image{Entrypoint: []string{"serve"}, Cmd: []string{"-a"}}
	for _, c := range []struct {
		request sandbox.Request
		image   sandbox.Image
		want    []string
	}{
		{sandbox.Request{}, image, []string{"serve", "-a"}},
		{sandbox.Request{Args: []string{"-b"}}, image, []string{"serve", "-b"}},
		{sandbox.Request{Command: []string{"ls"}}, image, []string{"ls"}},
		{sandbox.Request{Code: []byte("1")}, image, nil},
		{sandbox.Request{}, sandbox.Image{}, nil},
	} {
		if got := WithCommand(c.request, c.image); !slices.Equal(got.Command, c.want) {
			t.Errorf("%+v: %q", c.request, got.Command)
		}
	}
}
