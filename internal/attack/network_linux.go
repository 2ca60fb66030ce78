package attack

import (
	"strings"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// driveCeiling is E18: clients name addresses that the operator does not list. Then the probe looks for them with the
// most that a client may have.
func driveCeiling(tr *trial) {
	rules := []string{"169.254.169.254", "169.254.0.0/16", "10.0.0.0/8", "172.17.0.1", "192.168.1.1:22", "127.0.0.1",
		"[::1]:80", "fd00::/8", "host:22"}
	for _, at := range tr.arena.canaries.tcp {
		rules = append(rules, at[:strings.LastIndex(at, ":")])
	}
	for _, mode := range []sandbox.NetworkMode{sandbox.NetworkRestricted, sandbox.NetworkFull} {
		for _, rule := range rules {
			run := tr.request(tr.attack.code)
			run.Spec.Network = sandbox.NetworkPolicy{Mode: mode, Allow: []string{rule}}
			_, err := tr.arena.engine.Run(tr.stepContext(), run)
			switch {
			case sandbox.KindOf(err) == sandbox.Unsupported:
				tr.skip("this host gives sandboxes no network: %v", err)
			case sandbox.KindOf(err) != sandbox.Invalid:
				tr.fail("a client may name %s in mode %s: %v", rule, mode, err)
			}
		}
	}
	tr.executeAndJudge(tr.attack.code)
}

// driveDescriptors is E19: the probe holds as many connections as it can open, which take descriptors of the server.
func driveDescriptors(tr *trial) {
	o := tr.arena.outside
	run := tr.request(tr.attack.code)
	run.Spec.Network.MaxConnections = sandbox.MaxConnections
	if _, err := tr.arena.engine.Run(tr.stepContext(), run); sandbox.KindOf(err) != sandbox.Invalid {
		tr.fail("a client may request %d connections: %v", sandbox.MaxConnections, err)
	}
	run = tr.request(tr.attack.code)
	run.Owner = "flood" // other attacks keep their share
	r := tr.runUntil("ready", run, func() {
		if err := tr.arena.Benign(tr.ctx); err != nil {
			tr.fail("beside it: %v", err)
		}
	})
	tr.checkBreaches(r)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.most == 0 {
		tr.giveUp("it opened no connection: %s\n%s", tail(r.Stdout), tail(r.Stderr))
	}
	if o.most > plantedConnections/2 {
		tr.fail("it held %d connections; the share of one owner is %d", o.most, plantedConnections/2)
	}
	tr.note("at the most %d connections", o.most)
}

// driveHeads is E20: a host sends headers without an end to many requests at once.
func driveHeads(tr *trial) { tr.checkHeap(func() { tr.executeAndJudge(tr.attack.code) }) }

// driveSecret is S10: the output is searched for the secret, and the planted hosts for where it came.
func driveSecret(tr *trial) {
	tr.executeAndJudge(tr.attack.code)
	o := tr.arena.outside
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.used == 0 {
		tr.doubt("the secret reached no host")
	}
	for _, what := range o.misused {
		tr.fail("%s", what)
	}
}
