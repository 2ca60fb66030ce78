// Package guest is the protocol between a host and the guest, the small trusted program that is pid 1 in every sandbox.
//
// The guest starts processes, moves their bytes and serves files; a backend only builds the walls around it and hands back a
// way to dial it. The package itself holds the messages; wire holds their encoding and the multiplexer, client the host's side,
// server the guest's. To the host everything that comes out of a sandbox is hostile bytes, the guest's own included: a guest
// can fall. To the guest the host is trusted once it has shown the key, and only then.
//
// # Connections
//
// A host may hold several connections at once and make new ones at any time. A connection begins with a preamble from the
// host: 8 bytes Magic, 1 byte purpose (PurposeMux, PurposeAdopt or PurposeLifeline), 32 bytes key. The guest compares the key in constant time
// and answers with 8 bytes MagicReply and the 8-byte little-endian generation, which counts rebirths from 1.
//
// Failure rule: a wrong magic, purpose or key closes the connection without a byte. A preamble not complete within
// PreambleTimeout does too. At most MaxConnections are open at once; one more is closed at once.
//
// # Frames
//
// A mux connection carries streams. A frame is an 8-byte header (stream id uint32, kind uint8, payload length uint24, little
// endian) and its payload of at most MaxFrame bytes. Kinds: data; credit (uint32: how many more data bytes the sender of this
// frame will take on the stream); end (no more data from this side); reset (the stream is over at once, both ways). Only the
// host opens streams, by the first data frame with an id that is higher than all before. Each direction of a stream starts with
// InitialCredit. Data is never sent without credit, so a reader of the connection can always take the next frame without
// waiting, and a slow stream never holds up another.
//
// Failure rule: a frame that is too long, of an unknown kind, beyond its credit, after the end of its side, or for a stream
// that was never opened ends the connection with all its streams. Frames for a stream that is over are dropped, as a reset may
// cross with them; what came before a reset is still read. A stream beyond MaxStreams is reset. The connection of a
// peer that sends and never reads is ended once thousands of control frames wait for it. A connection that ends resets
// its streams; it ends no process and loses no output.
//
// When the guest has said its last on a call while the host still sends, it ends its side and resets the stream.
//
// # Messages
//
// A stream is one call. Each side sends messages on it: length uint32, type uint8, then the body, a sequence of tagged fields
// (package wire). Fields that the reader does not know are skipped, so that either side may be newer. A body is at most
// MaxMessage bytes. The host sends one request; the guest answers with the messages listed for it, or at any point with Failed,
// which ends the call. Data (file content, output) travels in messages of at most MaxData bytes.
//
// Failure rule: a message that is too long, or whose body does not parse, resets its stream. An unknown request type is
// answered with Failed{Unsupported}. When the host resets a stream or the connection ends, the call is canceled: a file half
// written atomically is removed; a started process goes on (see Start).
//
//	request     answers                        meaning
//	Hello       Welcome                        who the guest is, what it can do
//	Start       Started, Output*, Exited       starts a process; with Follow, its output and end come on the same stream
//	Attach      Output*, Exited                output from the given offsets, and the end
//	Input       Accepted                       bytes for stdin or the channel, at an offset, so that a repeat does no harm
//	Ack         Done                           output before the given offsets, or the exit record, may be forgotten
//	Signal      Done                           to the process, its group, or all processes of its execution
//	Resize      Done                           of a terminal
//	List        Processes                      what was started here and is not yet acknowledged: enough to attach again
//	Wait        Exited                         the exit record, as soon as there is one
//	KillAll     Done                           ends every process but the guest, and waits until they are reaped
//	Lease       Done                           the sandbox lives this much longer from now, or for ever; see Lease
//	Reborn      Done                           after a restore: new key, identity, entropy, clock; see Reborn
//	Hold        Done                           then the socket and all connections are closed, until a file beside it is gone
//	Dial        Dialed                         a TCP port of the sandbox's loopback; then the stream is the connection, see Dial
//	Shutdown    Done                           the guest answers, then exits, and with it the sandbox
//	Stat        FileInfo
//	ReadFile    FileInfo, Data*, Done          from an offset, at most so many bytes
//	WriteFile   Done                           the host sends Data*, then ends its side; see WriteFile
//	ListDir     FileInfo*, Done                to a depth, at most so many entries
//	MakeDir     Done
//	Move        Done
//	Remove      Done
//	Watch       Done, Changed*                 until the host resets the stream
//	Pack        FileInfo, Data*, ..., Done     trees out: each entry, then, for regular files, exactly its content
//	Unpack      Unpacked                       trees in: the host sends FileInfo, Data*, ..., then ends its side
//
// Output carries the stream, the offset of its first byte, and bytes. A process's output is kept in the guest, in a buffer of
// Start.Buffer bytes a stream, until it is acknowledged (Ack messages may also be sent on a Start or Attach stream). A full
// buffer is not read into further: the process is held up in its write, and nothing is lost. Offsets only grow; asking for
// an offset that is forgotten answers Failed{NotFound} with the oldest that is kept. A process that was started with
// Discard is never held up: beyond the buffer the oldest unacknowledged bytes are dropped, and a jump of offsets shows it.
//
// Exited is sent once the process is reaped and its output is complete. A descendant may hold the pipe open for ever, so output is
// awaited for Start.Drain at the most: from the reaping, or, where the guest kills processes of the execution meanwhile, from the end of
// that, which counts for two seconds after the reaping at the most. A kill that is yet to come is not awaited: where a deadline's
// KillSignal ended the process, the record may be there before Start.Grace is over. The record is kept until it is acknowledged.
//
// A deadline is given as a duration and kept on the guest's monotonic clock. When it passes before the started process has
// ended, every process of the execution gets Start.KillSignal, and SIGKILL after Start.Grace. The host keeps its own, later,
// deadline and closes the box.
//
// The processes of an execution are those whose session, or whose chain of parents, leads to the started process, or whose
// environment at birth names the execution (EnvExecution). To end them the guest stops all it finds until it finds no more, and
// then kills them, two seconds at the most. Where the end of the process or a deadline asked for that, an exit record that is not there
// yet waits for it. That is hygiene, not a wall: what hides ends with the sandbox.
//
// # Channel
//
// A process that was started with Channel talks to the host beside its stdout and stderr: what Input writes comes out of its descriptor 3,
// and what it writes to descriptor 4 is a third output stream, sandbox.Channel. It is kept, acknowledged, held up and dropped like the other
// two, and its buffer is its own. Its stdin is /dev/null. Both descriptors stay open when it executes another program, until that
// closes them or makes them close-on-exec.
//
// Each piece of the channel says how much the process had written to stdout and stderr when the guest read the piece's last byte
// (Output.BeforeStdout, BeforeStderr): what was read plus what lay in the pipes. So a host that reads a report knows which output
// came before it, although that may still be on its way. The marks are kept with the bytes and are the same after another Attach,
// except that one piece may then cover more reports, with the mark of the last. A mark is never too low. A host that awaits the
// output below a mark stops at Exited: nothing comes after that.
//
// # Adopt
//
// A connection with PurposeAdopt carries one message, Adopt, with the descriptors of the process's stdin (write end), stdout
// and stderr (read ends) as SCM_RIGHTS on the message's first byte, and gets back one Started or Failed. The process was spawned
// outside, into the sandbox's namespaces, as a child of pid 1; from then on it is like one that was started.
//
// # Lease
//
// A guest whose lease is over ends itself. A one-shot guest is given no lease but a lifeline: a descriptor that the host holds
// open; when it reads end-of-file, the guest ends. So a sandbox never outlives the last host that wants it. A guest in a container
// that a runtime made is spawned without one: a connection with PurposeLifeline takes its place, and ends the lease until then.
//
// A Lease with a time makes a one-shot guest a living one: the end of its lifeline then means nothing, and only the lease ends it.
// A Lease of zero gives up a lease, where there is one, and leaves the lifeline as it is. After Reborn the guest is a living one if
// that gave it a lease.
package guest
