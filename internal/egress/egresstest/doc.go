// Package egresstest is an internet for tests of the gate: a network namespace behind the one that the test and the
// gate run in, with a resolver, servers, and a canary that sees each packet that arrives. No part of the gate
// is replaced: it dials, resolves and verifies as on any host, and the canary counts each packet that leaves.
package egresstest
