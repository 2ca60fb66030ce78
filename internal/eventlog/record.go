package eventlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// magic begins every log; its last byte is the version of the format.
const magic = "fhevlog\x02"

// Where the parts of a header and of a record are.
const (
	slotAt     = len(magic)
	slotSize   = 24
	headerAt   = slotAt + slotSize // what the second sum covers begins 4 bytes later
	headerHead = headerAt + 32     // the size of a header without its head
	recordHead = 33
)

var (
	order      = binary.LittleEndian
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	errDamaged = errors.New("damaged record")
)

// seed is what the sums of a log begin with: that of its name and beginning, so that what an earlier log left in the
// file does not count.
type seed uint32

func seedOf(path string, began time.Time) seed {
	name := []byte(filepath.Base(path))
	return seed(crc32.Checksum(order.AppendUint64(name, uint64(began.UnixNano())), castagnoli))
}

func (s seed) sum(b []byte) uint32 { return crc32.Update(uint32(s), castagnoli, b) }

// slot is the part of the header that changes.
type slot struct {
	finished bool
	lost     [2]uint64 // of stdout and stderr: the offset after the last bytes that were not stored
}

func (s slot) put(b []byte, with seed) {
	order.PutUint32(b[4:], 0)
	if s.finished {
		order.PutUint32(b[4:], 1)
	}
	order.PutUint64(b[8:], s.lost[0])
	order.PutUint64(b[16:], s.lost[1])
	order.PutUint32(b, with.sum(b[4:slotSize]))
}

// readSlot returns a zero slot for a damaged one: the records say the same, but for bytes that were lost at the very
// end.
func readSlot(b []byte, with seed) slot {
	if order.Uint32(b) != with.sum(b[4:slotSize]) {
		return slot{}
	}
	return slot{finished: order.Uint32(b[4:]) == 1, lost: [2]uint64{order.Uint64(b[8:]), order.Uint64(b[16:])}}
}

// header is the part of the header that never changes.
type header struct {
	bounds Bounds
	began  time.Time
	head   []byte
	seed   seed
}

func (h header) append(b []byte) []byte {
	at := len(b)
	b = append(b, magic...)
	b = append(b, make([]byte, headerHead-slotAt)...)
	slot{}.put(b[at+slotAt:], h.seed)
	order.PutUint32(b[at+headerAt+4:], uint32(len(h.head)))
	order.PutUint64(b[at+headerAt+8:], uint64(h.bounds.Bytes))
	order.PutUint64(b[at+headerAt+16:], uint64(h.bounds.Reserve))
	order.PutUint64(b[at+headerAt+24:], uint64(h.began.UnixNano()))
	b = append(b, h.head...)
	order.PutUint32(b[at+headerAt:], h.seed.sum(b[at+headerAt+4:]))
	return b
}

// readHeader reads the header at the start of a file.
func readHeader(file *os.File) (h header, s slot, err error) {
	fixed := make([]byte, headerHead)
	if _, err := file.ReadAt(fixed, 0); err != nil && !errors.Is(err, io.EOF) {
		return h, s, err
	}
	if !bytes.HasPrefix(fixed, []byte(magic)) {
		return h, s, notOurs("it does not begin like an event log of this version")
	}
	n := order.Uint32(fixed[headerAt+4:])
	if n > MaxHead {
		return h, s, notOurs("its header is damaged")
	}
	b := append(fixed, make([]byte, n)...)
	if _, err := file.ReadAt(b[headerHead:], int64(headerHead)); err != nil && !errors.Is(err, io.EOF) {
		return h, s, err
	}
	h = header{
		bounds: Bounds{Bytes: int64(order.Uint64(b[headerAt+8:])), Reserve: int64(order.Uint64(b[headerAt+16:]))},
		began:  time.Unix(0, int64(order.Uint64(b[headerAt+24:]))),
		head:   b[headerHead:],
	}
	h.seed = seedOf(file.Name(), h.began)
	if order.Uint32(b[headerAt:]) != h.seed.sum(b[headerAt+4:]) || h.bounds.check(int(n)) != nil {
		return header{}, s, notOurs("its header is damaged")
	}
	return h, readSlot(b[slotAt:], h.seed), nil
}

// notOurs is the error for a file without a whole header. Nobody was told of its events: a header is in the first bytes
// written.
func notOurs(msg string) error {
	return &sandbox.Error{Kind: sandbox.Unavailable, Msg: msg, Fix: "remove the file; the events of this run are lost"}
}

func (s seed) appendRecord(b []byte, e Event) []byte {
	at := len(b)
	var fixed [recordHead]byte
	order.PutUint32(fixed[4:], uint32(len(e.Data)))
	order.PutUint64(fixed[8:], e.ID)
	order.PutUint64(fixed[16:], uint64(e.Time))
	order.PutUint64(fixed[24:], e.Offset)
	fixed[32] = byte(e.Kind)
	b = append(append(b, fixed[:]...), e.Data...)
	order.PutUint32(b[at:], s.sum(b[at+4:]))
	return b
}

// recordSize is the size that the record at the start of b claims, or 0 where b is too short to tell.
func recordSize(b []byte) int64 {
	if len(b) < recordHead {
		return 0
	}
	return recordHead + int64(order.Uint32(b[4:]))
}

// walk hands each whole record in b to take, and returns how many bytes were taken. Data lies in b.
func (s seed) walk(b []byte, take func(Event) error) (used int, err error) {
	for {
		rest := b[used:]
		n := recordSize(rest)
		if n > recordHead+MaxData {
			return used, errDamaged
		}
		if n == 0 || n > int64(len(rest)) {
			return used, nil
		}
		rest = rest[:n:n]
		e := Event{ID: order.Uint64(rest[8:]), Time: time.Duration(order.Uint64(rest[16:])),
			Offset: order.Uint64(rest[24:]),
			Kind:   Kind(rest[32]), Data: rest[recordHead:], More: used+int(n) < len(b)}
		if order.Uint32(rest) != s.sum(rest[4:]) || !e.Kind.known() || e.Time < 0 {
			return used, errDamaged
		}
		if err := take(e); err != nil {
			return used, err
		}
		used += int(n)
	}
}

// readRecords reads records of a file between two offsets into buf: many small ones, or a large one, which large
// permits before it takes memory. It returns buf, perhaps grown.
func readRecords(file io.ReaderAt, at, end int64, buf []byte, large func(int64) error) ([]byte, error) {
	for n := min(int64(piece), end-at); ; {
		if int64(cap(buf)) < n {
			buf = make([]byte, n)
		}
		buf = buf[:n]
		if _, err := file.ReadAt(buf, at); err != nil {
			return nil, err
		}
		want := min(recordSize(buf), end-at)
		if want <= n || want > recordHead+MaxData {
			return buf, nil
		}
		if err := large(want); err != nil {
			return nil, err
		}
		n = want
	}
}
