package eventlog

import (
	"path/filepath"
	"sync"
	"testing"
)

// BenchmarkAppend appends output in pieces as the guest sends them, synced as often as it is acknowledged.
func BenchmarkAppend(b *testing.B) { throughput(b, 0) }

// BenchmarkFollow is BenchmarkAppend with one follower.
func BenchmarkFollow(b *testing.B) { throughput(b, 1) }

func throughput(b *testing.B, followers int) {
	const size, perSync, perLog = 32 << 10, 8, 2000 // 64 MB a log
	path := filepath.Join(folder(b), "a")
	data := make([]byte, size)
	b.SetBytes(size)
	for n := 0; n < b.N; n += perLog {
		l, err := Create(path, []byte("{}"), Bounds{Bytes: 1 << 30})
		if err != nil {
			b.Fatal(err)
		}
		var following sync.WaitGroup
		for range followers {
			following.Go(func() {
				if err := l.Follow(b.Context(), 0, func(Event) error { return nil }); err != nil {
					b.Error(err)
				}
			})
		}
		for i := range min(perLog, b.N-n) {
			if _, err := l.Append(Stdout, uint64(i+1)*size, data); err != nil {
				b.Fatal(err)
			}
			if i%perSync == perSync-1 {
				if err := l.Sync(); err != nil {
					b.Fatal(err)
				}
			}
		}
		if err := l.Finish(nil); err != nil {
			b.Fatal(err)
		}
		following.Wait()
		if err := l.Remove(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkShort is the log of a run that prints a line.
func BenchmarkShort(b *testing.B) {
	path := filepath.Join(folder(b), "a")
	for b.Loop() {
		l, err := Create(path, []byte(`{"code":"print(1)"}`), Bounds{})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := l.Append(Stdout, 2, []byte("1\n")); err != nil {
			b.Fatal(err)
		}
		if err := l.Finish([]byte("0")); err != nil {
			b.Fatal(err)
		}
		if err := l.Remove(); err != nil {
			b.Fatal(err)
		}
	}
}
