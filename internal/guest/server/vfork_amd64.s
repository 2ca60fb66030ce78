#include "textflag.h"

#define SYS_clone 56

// func vfork(flags uintptr) (pid uintptr, errno uintptr)
//
// The return address waits in R12, which the kernel preserves: the child returns first and goes on to use this part of the stack.
TEXT ·vfork(SB), NOSPLIT|NOFRAME, $0-24
	MOVQ  flags+0(FP), DI
	XORQ  SI, SI
	XORQ  DX, DX
	XORQ  R10, R10
	XORQ  R8, R8
	MOVQ  $SYS_clone, AX
	POPQ  R12
	SYSCALL
	PUSHQ R12
	CMPQ  AX, $-4095
	JCC   failed
	MOVQ  AX, pid+8(FP)
	MOVQ  $0, errno+16(FP)
	RET

failed:
	NEGQ AX
	MOVQ $0, pid+8(FP)
	MOVQ AX, errno+16(FP)
	RET
