// Package eventlog keeps the events of one run in one file, so that a client can replay them from any id and follow
// them, also after it or the server went away.
//
// A log lives in memory until somebody asks for more: Create writes nothing, and Sync, Finish or a follower writes what
// is new in one call. Nothing calls fsync(2). What is synced survives the death of this process at any instant, not
// that of the machine: the sandboxes whose runs these are do not survive that either.
//
// Followers get only synced events. Otherwise a server that dies could take back an event that a client has seen, and
// its successor would give the same id to other bytes.
//
// # The file
//
// Numbers are little-endian. A header, then records without gaps:
//
//	header:  magic [8]   the last byte is the version
//	         slot [24]   CRC-32C of the rest of the slot u32, finished u32, lost stdout u64, lost stderr u64
//	         CRC-32C u32 of the rest of the header
//	         length u32  of the head
//	         bytes u64, reserve u64, began i64 (ns of the Unix clock), head
//	record:  CRC-32C u32 of the rest of the record
//	         length u32  of the data
//	         id u64, time i64 (ns), offset u64, kind u8, data
//
// A log may take the file of a removed log. Each of its sums begins with the sum of its name and its beginning, so a
// reader takes no record of the removed log for one of it.
//
// Only the slot of a log is ever written twice. It says up to which offset output was not stored for want of space, and
// lets a reader learn that a log is finished without reading it. Code in the sandbox chooses the data of records, so
// nothing searches the file for them.
package eventlog
