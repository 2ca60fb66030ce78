package main

import (
	"bytes"
	"net"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/httpd"
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

// TestWarnOfKernel: several clients on the host's kernel are reported, unless the operator named a backend.
func TestWarnOfKernel(t *testing.T) {
	var named, allowed serveFlags
	named.config.Default, allowed.config.Allowed = "native", []string{"native"}
	loopback := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}
	one, two := []httpd.Key{{Name: "a"}, {Name: "a"}}, []httpd.Key{{Name: "a"}, {Name: "b"}}
	for _, c := range []struct {
		flags *serveFlags
		keys  []httpd.Key
		addr  net.Addr
		warns bool
	}{
		{&serveFlags{}, two, loopback, true},
		{&serveFlags{}, one, loopback, false},
		{&serveFlags{}, nil, loopback, false},
		{&named, two, loopback, false},
		{&allowed, two, loopback, false},
		{&serveFlags{}, two, &net.TCPAddr{IP: net.IPv4zero}, false}, // auto
	} {
		var stderr bytes.Buffer
		a := testApp(t)
		a.Stderr = &stderr
		a.warnOfKernel(c.flags, c.keys, c.addr)
		if got := strings.Contains(stderr.String(), "--backend gvisor"); got != c.warns {
			t.Errorf("%+v: %q", c, stderr.String())
		}
	}
}
