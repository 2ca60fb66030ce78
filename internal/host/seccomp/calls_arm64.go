package seccomp

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_AARCH64

// x32Bit is zero: this architecture has no second numbering.
const x32Bit = 0

// newestCall is the highest call that this policy has considered.
const newestCall = unix.SYS_MSEAL

// allowedHere are the calls of this architecture only.
var allowedHere = []int{unix.SYS_NEWFSTATAT}

func byArgumentHere([]uint32) map[int][]Rule { return nil }

// setIDModesHere is the index of the mode argument, by call.
var setIDModesHere = map[int]int{}
