// Package server is the guest's side of the protocol: it starts processes, keeps and moves their output, reaps, and serves
// files.
//
// It is linked into the guest, which starts with every sandbox as its pid 1. So it avoids fmt, net, log and reflection,
// opens every descriptor close-on-exec, and allocates buffers only as data comes. It trusts the host once that has shown the
// key, and never the code in the sandbox.
package server
