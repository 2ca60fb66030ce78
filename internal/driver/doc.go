// Package driver is the protocol between the engine and the driver of a context.
//
// A context is an interpreter that lives between runs and keeps its variables. Its driver is a program in its own
// language, in the same process, which the guest starts with Start.Channel:
//
//	0  /dev/null          code that reads its input gets an error that says so
//	1  stdout             of the code and its children, untouched
//	2  stderr
//	3  requests           from the engine
//	4  reports            to the engine
//	5  socket             to the guest: background output, and new pipes for stdout and stderr (package guest)
//
// # Frames
//
// Requests and reports are frames: a header line of ASCII, "KIND LENGTH LENGTH...\n", then the bytes of the fields, one
// after another. Lengths are decimal, in bytes. Every language can write and read that without a library.
//
//	request   fields                    meaning
//	run       id, code, NAME, VALUE ... run the code, show the value of its last expression. The environment has
//	                                    the variables meanwhile
//	tools     JSON                      before run: define a function for each tool, by name, description and schema
//	answer    call, ok, data            answers a call: JSON if ok is 1, the text of an error if 0
//	export    id, JSON                  the variables of a list of names, or all, as a document (docs/state.md)
//	import    id, document              set the variables of a document
//	complete  id, code, cursor          names that fit at the cursor, a decimal offset in bytes
//
//	report    fields                    meaning
//	ready     version                   the driver accepts requests; always the first
//	result    id, main, TYPE, data ...  the code shows a value: pairs of a media type and its bytes. Main is 1
//	                                    for the value of the last expression, 0 for a display
//	error     id, name, value, trace    an uncaught exception, before done
//	done      id, code                  the run is over, with this exit code: 0; 1 after an exception; that of exit(n)
//	call      id, call, tool, arguments the code calls a tool with a JSON object; call is its id among those that wait
//	state     id, ok, data              answers export and import: JSON if ok is 1, the text of an error if 0
//	matches   id, start, NAME ...       answers complete: each name replaces the code from start, an offset in
//	                                    bytes, to the cursor
//
// The driver handles one request at a time, in order; answers come while code runs. A run reports any number of
// results and calls, at most one error, and one done. What the code wrote to stdout and stderr lies in the pipes
// before done is written, so the guest can tell which
// output belongs to which run (guest.Output.Before). What code of earlier runs writes is background output: the driver
// sends that of threads, tasks and timers to the socket. After a run that started processes, it moves to new pipes, so
// that what these write later is background output too.
//
// SIGINT interrupts the run, as Control-C would: an error KeyboardInterrupt or its like, and state stays. Between two
// runs it does nothing. The end of file of the requests ends the driver.
//
// Everything here comes from the code's own process, so the code can forge it. A forged report misleads about the code
// itself, and about nothing else: time, memory, output and the end of the process are observed from outside. A frame
// that breaks the rules ends the context.
package driver
