// Package wire is the lowest layer of the guest protocol: the encoding of messages, and the multiplexer that carries many calls
// over one connection. What travels in it is written down in package guest.
//
// It is linked into the guest, which starts once a sandbox. So it does without reflection, fmt and net, and takes its buffers
// only as data comes. Both sides bound what they read: neither a broken nor a hostile peer makes it hold more than the
// constants here say.
package wire
