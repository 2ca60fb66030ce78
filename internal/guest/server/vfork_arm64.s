#include "textflag.h"

#define SYS_clone 220

// func vfork(flags uintptr) (pid uintptr, errno uintptr)
//
// The return address is in the link register, which the kernel preserves; nothing is on the stack.
TEXT ·vfork(SB), NOSPLIT|NOFRAME, $0-24
	MOVD flags+0(FP), R0
	MOVD ZR, R1
	MOVD ZR, R2
	MOVD ZR, R3
	MOVD ZR, R4
	MOVD $SYS_clone, R8
	SVC  $0
	CMN  $4095, R0
	BCS  failed
	MOVD R0, pid+8(FP)
	MOVD ZR, errno+16(FP)
	RET

failed:
	NEG  R0, R0
	MOVD ZR, pid+8(FP)
	MOVD R0, errno+16(FP)
	RET
