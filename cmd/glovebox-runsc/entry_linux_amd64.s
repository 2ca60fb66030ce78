#include "textflag.h"

// glovebox_entry is where this program begins (-E of the linker), before the Go runtime has started a thread: it registers for the expedited
// memory barriers that gVisor registers for later, in an initialiser. Done there, with threads about, the kernel waits until every
// processor has passed through its scheduler, 11 ms that each of the five programs of a start would pay; in a process of one thread it
// waits for nothing, and to register again is nothing to do (membarrier(2), sync_runqueues_membarrier_state in the kernel). An error is
// left for gVisor to see again.
TEXT glovebox_entry(SB),NOSPLIT|NOFRAME,$0
	MOVL $324, AX // membarrier
	MOVL $16, DI  // MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED
	XORL SI, SI
	XORL DX, DX
	SYSCALL
	JMP _rt0_amd64_linux(SB)
