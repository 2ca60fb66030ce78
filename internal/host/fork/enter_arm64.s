#include "textflag.h"

// See Entrance. Nothing here touches the stack above what it found, as the child uses the same one while its parent waits.
TEXT ·enter(SB), NOSPLIT|NOFRAME, $0
	STP.W (R19, R30), -16(RSP)
	MOVD  R0, R19
	MOVD  0(R19), R8
	MOVD  8(R19), R0
	MOVD  16(R19), R1
	MOVD  ZR, R2
	MOVD  ZR, R3
	MOVD  ZR, R4
	SVC   $0
	CBNZ  R0, return

next:
	ADD  $32, R19
	MOVD 0(R19), R8
	MOVD 8(R19), R0
	CMN  $1, R8
	BEQ  last
	MOVD 16(R19), R1
	MOVD 24(R19), R2
	SVC  $0
	TBZ  $63, R0, next
	NEG  R0, R0
	B    exit

last:
	BL   (R0)
	CBZW R0, return
	TBZ  $31, R0, parent
	MOVD $11, R0 // EAGAIN
	B    exit

parent:
	MOVD ZR, R0

exit:
	MOVD $94, R8 // exit_group
	SVC  $0

return:
	LDP.P 16(RSP), (R19, R30)
	RET

TEXT ·enterEnd(SB), NOSPLIT|NOFRAME, $0
	RET

// func entrance() (code *byte, size int)
TEXT ·entrance(SB), NOSPLIT, $0-16
	MOVD $·enter(SB), R0
	MOVD R0, code+0(FP)
	MOVD $·enterEnd(SB), R1
	SUB  R0, R1
	MOVD R1, size+8(FP)
	RET
