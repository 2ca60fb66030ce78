// Package volume keeps named volumes: storage of an owner that outlives sandboxes, servers and the machine.
//
// Where root can mount a loop device, a volume is a sparse file with an ext4 file system. Its size bounds the bytes,
// and its inode table the files, so the kernel enforces both. Only this package writes the file system raw (mke2fs(8)),
// and only before the first use. It is always mounted nosuid and nodev. Elsewhere a volume is a folder without a bound,
// which its creator must permit (sandbox.VolumeRequest, AllowUnenforced).
//
// Nothing is mounted on the host: Hold makes detached mounts (fsmount(2)), which a backend attaches inside of its
// sandbox. A loop device detaches itself after the last mount (LO_FLAGS_AUTOCLEAR). So a process that is killed leaves
// neither: the kernel releases both with the last sandbox. The next process finds the device of a mounted volume by the
// inode of its file, and mounts the same file system again.
//
// A volume is in use as long as one of its users lives. A user is a file named by the id of a sandbox. The process that
// makes the sandbox locks it. After that, the sandbox lives as long as its box exists, which Options.Lives reports. So
// users need no cleaning either.
//
//	DIR/lock            held to add and to remove volumes, but not while their files are written or removed
//	DIR/new-*/          a volume that is being made, whose lock its maker holds, or removed
//	DIR/HASH/           one volume; HASH is of its owner and name
//	DIR/HASH/record     its description
//	DIR/HASH/lock       held to change and to read users, and to attach the loop device
//	DIR/HASH/users/ID   a sandbox that uses it
//	DIR/HASH/disk       its file system, or
//	DIR/HASH/files/     its files
package volume
