package egress

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/fumehood-dev/fumehood/sandbox"
)

const (
	journalName   = "network.jsonl"
	journalBefore = "network.1.jsonl"
	maxJournal    = 4 << 20                // bytes of a file of a journal, and not much more
	maxLine       = 1 << 20                // bytes of a line: totals have at most 256 hosts, 256 bytes each
	journalPace   = 100 * time.Millisecond // between two batches. A crash may lose one that nobody has read
	journalRetry  = 5 * time.Second        // after a failure, for example on a full disk
)

// journal keeps the attempts of a log in two files of JSON lines, so that they survive the server. It follows the log,
// so packets never wait for a disk. Attempts that it was too slow for are a gap in Seq; totals follow the gap, so that
// counts stay right.
type journal struct {
	log  *Log
	root *os.Root // the folder
	pace time.Duration

	stop context.CancelFunc
	done chan struct{}

	mu    sync.Mutex // guards all below
	file  *os.File
	size  int64
	cut   bool   // the last line may lack its end
	next  uint64 // the Seq of the next attempt to write
	err   error  // of the last batch
	ended bool   // nothing more is written
}

// journalLine is one line: an attempt, or the totals of all attempts up to Seq.
type journalLine struct {
	Attempt *Attempt `json:",omitempty"`
	Seq     uint64   `json:",omitempty"`
	Totals  *Summary `json:",omitempty"`
}

// openJournal reads the journal in a folder, puts its attempts before those of the log, and continues the journal.
func openJournal(l *Log, dir string, pace time.Duration) (*journal, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, journalError(err)
	}
	j := &journal{log: l, root: root, pace: pace, done: make(chan struct{})}
	var kept Log
	for _, name := range []string{journalBefore, journalName} {
		if err := kept.read(root, name); err != nil {
			return nil, journalError(errors.Join(err, root.Close()))
		}
	}
	if err := j.open(); err != nil {
		return nil, journalError(errors.Join(err, root.Close()))
	}
	j.next = kept.last + 1
	l.follow(&kept)
	ctx, stop := context.WithCancel(context.Background())
	j.stop = stop
	go func() {
		defer close(j.done)
		defer func() {
			if p := recover(); p != nil {
				j.mu.Lock()
				defer j.mu.Unlock()
				j.err, j.ended = fmt.Errorf("panic: %v", p), true
			}
		}()
		j.run(ctx, kept.last)
	}()
	return j, nil
}

// Last, Follow and Summary return what the journal has written too. So after a kill of the server, no Seq that a reader
// has seen names another attempt.

func (g *gate) Last(n int) []Attempt {
	defer g.journal.flush()
	return g.Log.Last(n)
}

func (g *gate) Follow(ctx context.Context, seq uint64) ([]Attempt, error) {
	defer g.journal.flush()
	return g.Log.Follow(ctx, seq)
}

func (g *gate) Summary() Summary {
	defer g.journal.flush()
	return g.Log.Summary()
}

func journalError(err error) error { return &sandbox.Error{Op: "keep the log of a network", Err: err} }

// open opens or creates the file, whose last line a dying server may have cut. It writes nothing, so that a server can
// take a sandbox over on a full disk.
func (j *journal) open() error {
	file, err := j.root.OpenFile(journalName, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		return errors.Join(err, file.Close())
	}
	j.file, j.size, j.cut = file, info.Size(), info.Size() > 0
	return nil
}

// rotate makes the full file journalBefore, and opens a new one. After a failure, the next call continues.
func (j *journal) rotate() error {
	if err := j.root.Rename(journalName, journalBefore); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	full := j.file
	if err := j.open(); err != nil {
		return err
	}
	return full.Close()
}

// run writes batches of the attempts after a Seq until the context ends, and then the rest. It repeats one that could
// not be written.
func (j *journal) run(ctx context.Context, after uint64) {
	pace := time.NewTicker(j.pace)
	defer pace.Stop()
	for {
		_, over := j.log.Follow(ctx, after)
		var err error
		if after, err = j.flush(); over != nil {
			return
		}
		next := pace.C
		if err != nil {
			next = time.After(journalRetry)
		}
		select {
		case <-next:
		case <-ctx.Done():
		}
	}
}

// flush writes the new attempts of the log, and returns the Seq of the last one in the file. After a failure, the next
// call writes the same attempts again. A nil journal writes nothing.
func (j *journal) flush() (last uint64, err error) {
	if j == nil {
		return 0, nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.ended {
		j.err = j.write()
	}
	return j.next - 1, j.err
}

// write writes new attempts, with the totals in a new file and after a gap. A full file becomes journalBefore. The
// caller holds mu.
func (j *journal) write() error {
	if j.size > maxJournal {
		if err := j.rotate(); err != nil {
			return err
		}
	}
	list, last, totals := j.log.since(j.next-1, j.size == 0)
	if len(list) == 0 && (j.size > 0 || last == 0) {
		return nil
	}
	lines := make([]journalLine, 0, len(list)+1)
	for i := range list {
		lines = append(lines, journalLine{Attempt: &list[i]})
	}
	if totals != nil {
		lines = append(lines, journalLine{Seq: last, Totals: totals})
	}
	var b []byte
	if j.cut {
		b = append(b, '\n')
	}
	for i := range lines {
		line, err := json.Marshal(&lines[i])
		if err != nil {
			return err
		}
		b = append(append(b, line...), '\n')
	}
	n, err := j.file.Write(b)
	j.size += int64(n)
	if err != nil { // read skips what is repeated
		j.cut = j.cut || n > 0
		return err
	}
	j.cut, j.next = false, last+1
	return nil
}

// close writes the rest and waits for the end of run.
func (j *journal) close() error {
	j.stop()
	<-j.done
	j.mu.Lock()
	defer j.mu.Unlock()
	err := j.err
	j.err, j.ended = fs.ErrClosed, true
	if err := errors.Join(err, j.file.Close(), j.root.Close()); err != nil {
		return journalError(err)
	}
	return nil
}

// read adds the lines of a file of a journal. It skips cut and damaged lines.
func (l *Log) read(root *os.Root, name string) error {
	file, err := root.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, maxLine)
	lines.Split(lineOrPiece)
	for lines.Scan() {
		var line journalLine
		if json.Unmarshal(lines.Bytes(), &line) != nil {
			continue
		}
		switch {
		case line.Totals != nil:
			if line.Seq > l.last {
				l.skip(line.Seq)
			}
			l.sum = *line.Totals
		case line.Attempt != nil && line.Attempt.Seq > l.last:
			l.keep(*line.Attempt)
			count(&l.sum, line.Attempt)
		}
	}
	return lines.Err()
}

// lineOrPiece is bufio.ScanLines, and skips a piece of a line that is too long.
func lineOrPiece(data []byte, atEOF bool) (advance int, line []byte, err error) {
	advance, line, err = bufio.ScanLines(data, atEOF)
	if advance == 0 && len(data) == maxLine {
		return len(data), nil, nil
	}
	return advance, line, err
}

// follow puts the attempts of this log after those of a journal.
func (l *Log) follow(kept *Log) {
	l.mu.Lock()
	defer l.mu.Unlock()
	own := l.after(0, maxAttempts)
	l.ring, l.base, l.last, l.sum = kept.ring, kept.base, kept.last, kept.sum
	for i := range own {
		l.put(own[i])
	}
}

// since returns the attempts after a Seq, and the last Seq. It also returns the totals if they are wanted or attempts
// are missing.
func (l *Log) since(seq uint64, want bool) (list []Attempt, last uint64, totals *Summary) {
	l.mu.Lock()
	defer l.mu.Unlock()
	list = l.after(seq, maxAttempts)
	if want || len(list) > 0 && list[0].Seq != seq+1 {
		s := l.totals()
		totals = &s
	}
	return list, l.last, totals
}
