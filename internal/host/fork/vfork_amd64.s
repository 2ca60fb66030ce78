#include "textflag.h"

// func vfork(trap, a1, a2, a3 uintptr) (pid, errno uintptr)
//
// The return address waits in R12, which the kernel preserves: the child returns first and goes on to use this part of the stack.
TEXT ·vfork(SB), NOSPLIT|NOFRAME, $0-48
	MOVQ  trap+0(FP), AX
	MOVQ  a1+8(FP), DI
	MOVQ  a2+16(FP), SI
	MOVQ  a3+24(FP), DX
	XORQ  R10, R10
	XORQ  R8, R8
	XORQ  R9, R9
	POPQ  R12
	SYSCALL
	PUSHQ R12
	CMPQ  AX, $-4095
	JCC   failed
	MOVQ  AX, pid+32(FP)
	MOVQ  $0, errno+40(FP)
	RET

failed:
	NEGQ AX
	MOVQ $0, pid+32(FP)
	MOVQ AX, errno+40(FP)
	RET
