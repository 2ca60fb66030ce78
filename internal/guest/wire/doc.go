// Package wire is the lowest layer of the guest protocol: the encoding of messages, and the multiplexer that carries
// many calls over one connection. Package guest documents the messages.
//
// It is linked into the guest, which starts with every sandbox. So it avoids reflection, fmt and net, and allocates
// buffers only as data comes. Both sides bound what they read: neither a broken nor a hostile peer makes them hold more
// than the constants here.
package wire
