#include "textflag.h"

// fumehood_entry is the entry point of this program (-E of the linker), before the Go runtime starts threads. It registers for expedited
// memory barriers, as gVisor does later in an initialiser. With several threads, the kernel waits until every processor has passed
// through its scheduler: 11 ms for each of the five programs of a start. With one thread it does not wait, and the second registration is
// free (membarrier(2), sync_runqueues_membarrier_state in the kernel). gVisor sees any error again.
TEXT fumehood_entry(SB),NOSPLIT|NOFRAME,$0
	MOVL $324, AX // membarrier
	MOVL $16, DI  // MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED
	XORL SI, SI
	XORL DX, DX
	SYSCALL
	JMP _rt0_amd64_linux(SB)
