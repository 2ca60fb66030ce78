package fork

import "unsafe"

// Entrance is machine code, for a program that is not ours, of a function that has a child of the caller's enter a sandbox and leave a
// child of its own there. The one between is never the caller's copy: it uses the caller's memory while the caller waits, as in
// vfork(2), since to copy and give up that of an interpreter takes 0.5 ms.
//
// The function has C's calling convention and one argument, the address of rows of four 64-bit words. The first row makes the child
// between: the number of clone or clone3 and its first two arguments, which are to say CLONE_VM and CLONE_VFORK, and no stack. Each
// further row is a system call of that child and its first three arguments; one that fails ends it with the error as exit status.
// The last row is -1 and the address of the C library's _Fork, by whose child the function returns 0. To the caller it returns the
// process id of the child between, which has ended, or a negative error.
//
// The code can lie anywhere, and needs nothing but itself.
func Entrance() []byte {
	return unsafe.Slice(entrance())
}

func entrance() (code *byte, size int)
