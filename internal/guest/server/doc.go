// Package server is the guest's side of the protocol: it starts processes, keeps and moves their output, and reaps.
// Package files serves files.
//
// Every sandbox starts the guest as its pid 1, so this package avoids fmt, net, log and reflection, opens every
// descriptor close-on-exec, and allocates buffers only as data arrives. It trusts a host that has shown the key, and
// never the code in the sandbox.
package server
