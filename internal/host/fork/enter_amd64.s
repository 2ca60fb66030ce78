#include "textflag.h"

// See Entrance. Nothing here touches the stack above what it found, as the child uses the same one while its parent waits.
TEXT ·enter(SB), NOSPLIT|NOFRAME, $0
	PUSHQ BX
	MOVQ  DI, BX
	MOVQ  0(BX), AX
	MOVQ  8(BX), DI
	MOVQ  16(BX), SI
	XORL  DX, DX
	XORL  R10, R10
	XORL  R8, R8
	SYSCALL
	TESTQ AX, AX
	JNE   return

next:
	ADDQ  $32, BX
	MOVQ  0(BX), AX
	MOVQ  8(BX), DI
	CMPQ  AX, $-1
	JEQ   last
	MOVQ  16(BX), SI
	MOVQ  24(BX), DX
	SYSCALL
	TESTQ AX, AX
	JGE   next
	NEGQ  AX
	MOVQ  AX, DI
	JMP   exit

last:
	CALL  DI
	TESTL AX, AX
	JEQ   return
	MOVL  $11, DI // EAGAIN
	JLT   exit
	XORL  DI, DI

exit:
	MOVL $231, AX // exit_group
	SYSCALL

return:
	POPQ BX
	RET

TEXT ·enterEnd(SB), NOSPLIT|NOFRAME, $0
	RET

// func entrance() (code *byte, size int)
TEXT ·entrance(SB), NOSPLIT, $0-16
	LEAQ ·enter(SB), AX
	MOVQ AX, code+0(FP)
	LEAQ ·enterEnd(SB), CX
	SUBQ AX, CX
	MOVQ CX, size+8(FP)
	RET
