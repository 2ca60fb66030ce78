#include "textflag.h"

// As in entry_linux_amd64.s.
TEXT fumehood_entry(SB),NOSPLIT|NOFRAME,$0
	MOVD $283, R8 // membarrier
	MOVD $16, R0  // MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED
	MOVD $0, R1
	MOVD $0, R2
	SVC
	B _rt0_arm64_linux(SB)
