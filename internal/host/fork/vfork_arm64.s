#include "textflag.h"

// func vfork(trap, a1, a2, a3 uintptr) (pid, errno uintptr)
//
// The return address is in the link register, which the kernel preserves; nothing is on the stack.
TEXT ·vfork(SB), NOSPLIT|NOFRAME, $0-48
	MOVD trap+0(FP), R8
	MOVD a1+8(FP), R0
	MOVD a2+16(FP), R1
	MOVD a3+24(FP), R2
	MOVD ZR, R3
	MOVD ZR, R4
	MOVD ZR, R5
	SVC  $0
	CMN  $4095, R0
	BCS  failed
	MOVD R0, pid+32(FP)
	MOVD ZR, errno+40(FP)
	RET

failed:
	NEG  R0, R0
	MOVD ZR, pid+32(FP)
	MOVD R0, errno+40(FP)
	RET
