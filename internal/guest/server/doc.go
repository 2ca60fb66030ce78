// Package server is the guest's side of the protocol: it starts processes, keeps and moves their bytes, reaps, and serves files.
//
// It is linked into the guest, which starts once a sandbox and is pid 1 of it. So it does without fmt, net, log and reflection,
// opens every descriptor close-on-exec, and takes buffers only as data comes. The host is trusted once it has shown the key;
// the code in the sandbox never is.
package server
