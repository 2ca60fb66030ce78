package fork

import "unsafe"

// Entrance returns machine code of a function, for a foreign program, that makes a child enter a sandbox and leave its
// own child there. The intermediate child uses the caller's memory while the caller waits, as in vfork(2), since
// copying and freeing an interpreter's memory takes 0.5 ms.
//
// The function has C's calling convention and one argument, the address of rows of four 64-bit words. The first row
// makes the intermediate child: the number of clone or clone3 and its first two arguments, which must specify CLONE_VM
// and CLONE_VFORK, and no stack. Each further row is a system call of that child and its first three arguments; a
// failure ends it with the error as exit status. The last row is -1 and the address of the C library's _Fork; in the
// child of that call the function returns 0. To the caller it returns the process id of the intermediate child, which
// has ended, or a negative error.
//
// The code is position-independent and self-contained.
func Entrance() []byte {
	return unsafe.Slice(entrance())
}

func entrance() (code *byte, size int)
