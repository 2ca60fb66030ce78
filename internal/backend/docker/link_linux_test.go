package docker

import (
	"os"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/system"

	"github.com/fumehood-dev/fumehood/internal/host/tap"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// specFor is a spec of which the creation has this step.
func specFor(step string) sandbox.Spec {
	s := spec()
	if step == failLink {
		s.Network.Mode = sandbox.NetworkFull
	}
	return s
}

// TestLinkable: a network is refused, with the reason, where its container cannot be entered or would not see it.
func TestLinkable(t *testing.T) {
	if os.Geteuid() != 0 || tap.Available() != nil {
		t.Skip("SKIPPED, NOT TESTED: only root with a device has networks to refuse")
	}
	for want, to := range map[string]*connection{
		"":                     {local: true, info: system.Info{DefaultRuntime: "runc"}},
		"is not on this host":  {info: system.Info{DefaultRuntime: "runc"}},
		"only root":            {local: true, rootless: true, info: system.Info{DefaultRuntime: "runc"}},
		"a kernel of its own,": {local: true, info: system.Info{DefaultRuntime: "runsc"}},
	} {
		to.engine, to.endpoint = &engine{options: &Options{Name: Name}}, &endpoint{host: "tcp://192.0.2.1:2376"}
		err := to.linkable()
		if (err == nil) != (want == "") || err != nil && (sandbox.KindOf(err) != sandbox.Unsupported ||
			!strings.Contains(err.Error(), want) || sandbox.FixOf(err) == "") {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}
