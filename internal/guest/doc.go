// Package guest is the protocol between a host and the guest, the small trusted program that is pid 1 in every sandbox.
//
// The guest starts processes, moves their bytes and serves files. A backend only builds the isolation around it and
// returns a way to dial it. This package holds the messages, wire their encoding and the multiplexer, client the host's
// side, server the guest's side. To the host everything from a sandbox is hostile bytes, including the guest's: code
// may have taken the guest over. The guest trusts a host that has shown the key.
//
// # Connections
//
// A host may hold several connections and make new ones at any time. A connection begins with a preamble from the host:
// 8 bytes Magic, 1 byte purpose (PurposeMux, PurposeAdopt or PurposeLifeline), 32 bytes key. The guest compares the key
// in constant time and answers with 8 bytes MagicReply and the 8-byte little-endian generation, which counts rebirths
// from 1.
//
// Failure rule: the guest closes a connection with a wrong magic, purpose or key without a byte, and also one whose
// preamble is not complete within PreambleTimeout. It closes each connection beyond MaxConnections at once.
//
// # Frames
//
// A mux connection carries streams. A frame is an 8-byte header (stream id uint32, kind uint8, payload length uint24,
// little endian) and its payload of at most MaxFrame bytes. Kinds: data; credit (uint32: how many more data bytes the
// sender of this frame accepts on the stream); end (no more data from this side); reset (ends the stream in both
// directions). Only the host opens streams, by a first data frame with an id that is higher than all before. Each
// direction of a stream starts with InitialCredit. Data needs credit, so a reader can always accept the next frame
// without waiting, and a slow stream never delays another.
//
// Failure rule: a frame that is too long, of an unknown kind, beyond its credit, after the end of its side, or for a
// stream that was never opened ends the connection with all its streams. Frames for an ended stream are dropped, as a
// reset may cross with them; data from before a reset is still read. A stream beyond MaxStreams is reset. The
// connection of a peer that sends without reading ends once thousands of control frames wait for it. That of a peer
// that sends frames that carry nothing ends after a hundred thousand. A connection that ends resets its streams; it
// ends no process and loses no output.
//
// If the host still sends after the guest's last message of a call, the guest ends its side and resets the stream.
//
// # Messages
//
// A stream is one call. Each side sends messages on it: length uint32, type uint8, then the body, a sequence of tagged
// fields (package wire). A reader skips unknown fields, so either side may be newer. A body has at most wire.MaxMessage
// bytes. The host sends one request; the guest answers with the messages listed for it, or at any point with Failed,
// which ends the call. Data (file content, output) travels in messages of at most MaxData bytes.
//
// Failure rule: a message that is too long, or whose body does not parse, resets its stream. The guest answers an
// unknown request type with Failed{Unsupported}. When the host resets a stream or the connection ends, the guest
// cancels the call: it removes a partly written atomic file; a started process continues (see Start).
//
//	request     answers                        meaning
//	Hello       Welcome                        the guest's identity and the requests it serves
//	Start       Started, Output*, Exited       starts a process; with Follow, output and exit record use the same stream
//	Park        Started                        starts an interpreter that waits for the program of a Start; see Park
//	Attach      Output*, Exited                output from the given offsets, and the exit record
//	Input       Accepted                       bytes for stdin or the channel, at an offset: idempotent
//	Ack         Done                           drops output before the given offsets, or the record
//	Signal      Done                           to the process, its group, or all processes of its execution
//	Resize      Done                           of a terminal
//	List        Processes                      the unacknowledged processes, with what Attach needs
//	Wait        Exited                         the exit record, once it exists
//	KillAll     Done                           kills every process except the guest, and waits until they are reaped
//	Lease       Done                           sets or cancels the sandbox's lease; see Lease
//	Reborn      Done                           after a restore: new key, identity, entropy, clock; see Reborn
//	Memory      MemoryState                    changes the watched limit of memory; counts kills at it
//	Hold        Done                           closes the socket and all connections; see Hold
//	Dial        Dialed                         connects to a TCP port of the sandbox's loopback; see Dial
//	Shutdown    Done                           the guest answers, then exits, and the sandbox ends
//	Stat        FileInfo
//	ReadFile    FileInfo, Data*, Done          from an offset, up to a length
//	WriteFile   Done                           the host sends Data*, then ends its side; see WriteFile
//	ListDir     FileInfo*, Done                to a depth, up to a number of entries
//	MakeDir     Done
//	Move        Done
//	Remove      Done
//	Watch       Done, Changed*                 until the host resets the stream
//	Pack        FileInfo, Data*, ..., Done     reads trees: each entry, then the content of a regular file
//	Unpack      Unpacked                       makes trees: the host sends FileInfo, Data*, ..., then ends its side
//
// Output carries the stream, the offset of its first byte, and bytes. The guest keeps a process's output, in a buffer
// of Start.Buffer bytes per stream, until it is acknowledged (a host may also send Ack on a Start or Attach stream).
// The guest stops reading when a buffer is full: the process blocks in its write, and nothing is lost. Offsets only
// grow. A request for a dropped offset fails with NotFound and the oldest kept one. A process with Discard never
// blocks: beyond the buffer the guest drops the oldest unacknowledged bytes, and the offsets show the gap.
//
// The guest sends Exited once the process is reaped and its output is complete. A descendant may hold a pipe open for
// ever, so the wait for output is bounded by Start.Drain. It begins when the process is reaped, or, while the guest
// kills processes of the execution, after that, but at most two seconds after the reaping. The guest keeps the record
// until it is acknowledged.
//
// # Time limit
//
// Three clocks enforce the time limit of an execution:
//   - The guest's, package server, deadline.go: Start.Deadline is a duration on the guest's monotonic clock. If it
//     passes before the started process ends, the guest sends Start.KillSignal to every process of the execution, and
//     SIGKILL to those that are left after Start.Grace.
//   - The host's, package engine: a later deadline, after which the engine closes the box. It holds even if code has
//     taken the guest over.
//   - The lease or the lifeline of the sandbox (below), which holds even if the host is gone.
//
// The processes of an execution are those whose session or chain of parents leads to the started process, or whose
// initial environment names the execution (EnvExecution). To kill them, the guest stops all it finds until it finds no
// more, and then kills them, within two seconds. An incomplete exit record waits for a kill that the end of the process
// or a deadline caused. This is hygiene, not isolation: a hidden process ends with the sandbox.
//
// # Channel
//
// A process with Start.Channel talks to the host beside its stdout and stderr: it reads Input from descriptor 3, and
// what it writes to descriptor 4 is a third output stream, sandbox.Channel. That stream is kept, acknowledged, blocked
// and dropped like the other two, with a buffer of its own. The process's stdin is /dev/null. All descriptors stay open
// when it executes another program, until that program closes them or makes them close-on-exec.
//
// Descriptor 5 is a socket (SOCK_SEQPACKET) for background output: what code writes that was started by an earlier
// request. A message BackgroundText and bytes is output of a fourth stream, sandbox.Background. At a message NewPipes
// the guest answers with the same byte and two descriptors (SCM_RIGHTS): new pipes for stdout and stderr. The process
// puts them in place of its own. What was in the old pipes is output as usual; what other processes write to them later
// is background output. The guest keeps the newest 64 KiB of that stream, drops the oldest beyond, and slows writers
// down to about 1 MiB a second. It answers without descriptors if 64 old pipes still have writers.
//
// Each piece of the channel reports how much the process had written to stdout and stderr when the guest read the
// piece's last byte (Output.BeforeStdout, BeforeStderr): the bytes read and those in the pipes. So a host that reads a
// report knows which output came before it, although that output may arrive later. The guest keeps these marks with the
// bytes. They are the same after another Attach, except that one piece may then cover several reports, with the mark of
// the last. A mark is never too low. A host that waits for the output below a mark stops at Exited, which is always
// last.
//
// # Adopt
//
// A connection with PurposeAdopt carries one message, Adopt, with three descriptors as SCM_RIGHTS on the message's
// first byte. The guest answers with one Started or Failed. The process was spawned outside, into the sandbox's
// namespaces, as a child of pid 1. From then on it is the parked interpreter (see Park).
//
// # Lease
//
// A guest whose lease expires ends itself. A one-shot guest has a lifeline instead: a descriptor that the host holds
// open; at its end-of-file the guest ends. So a sandbox never outlives the last host that wants it. The guest in a
// container of a runtime has no such descriptor: a connection with PurposeLifeline replaces it, and the lease until
// then.
//
// A nonzero Lease makes a one-shot guest a living one: the end of its lifeline no longer ends it, only the lease does.
// A Lease of zero cancels a lease and leaves the lifeline unchanged. A guest is a living one after Reborn if that set a
// lease.
package guest
