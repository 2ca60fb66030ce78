package trees

// BlockBytes is the least that a file, a folder or a link counts.
const BlockBytes = 4096

// SizeOnDisk returns the bytes that a file takes on a disk: whole blocks, at least one.
func SizeOnDisk(bytes int64) int64 { return (max(bytes, 1) + BlockBytes - 1) / BlockBytes * BlockBytes }
