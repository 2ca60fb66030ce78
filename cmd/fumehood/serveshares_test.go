package main

import (
	"testing"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestBoxes: descriptors are kept for warm sandboxes too.
func TestBoxes(t *testing.T) {
	var f serveFlags
	f.config.Slots, f.config.Living.Most = 4, 512
	without := f.boxes()
	f.config.Warm = 4
	if got := f.boxes() - without; without != 520 || got != engine.WarmBoxes(4) || got < 4 {
		t.Errorf("%d boxes, and %d warm ones", without, got)
	}
}

// TestDescriptorsOf: networks, clients and ports leave descriptors for sandboxes and listeners, however few there are.
func TestDescriptorsOf(t *testing.T) {
	for _, c := range []struct {
		files     int64
		sandboxes int
		want      descriptors
	}{
		{0, 512, descriptors{}},
		{1024, 512, descriptors{256, 64, 32}},
		{20000, 520, descriptors{5320, 1330, 665}},
		{524288, 520, descriptors{257464, 4096, 2048}},
	} {
		got := descriptorsOf(sandbox.Limits{OpenFiles: c.files}, c.sandboxes)
		if got != c.want {
			t.Errorf("%d files: %+v, not %+v", c.files, got, c.want)
		}
		if rest := c.files - int64(got.networks+2*got.clients+got.ports); c.files > 0 && rest < c.files/2/2 {
			t.Errorf("%d of %d files are left", rest, c.files)
		}
	}
}

// TestCheckConfig: settings with which the server does not start are refused.
func TestCheckConfig(t *testing.T) {
	for _, flag := range []string{"", "--allow-unenforced=foo", "--allow-volume-dir=/missing", "--backend=foo",
		"--package-index=foo", "--queue-timeout=-1s"} {
		args := []string{"serve", "--check-config"}
		if flag != "" {
			args = append(args, flag)
		}
		if code, out, errs := fumehoodWith(t, args...); (code == 0) != (flag == "") {
			t.Errorf("%s: %d %s%s", flag, code, out, errs)
		}
	}
}
