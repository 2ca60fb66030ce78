package wire

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/hashicorp/yamux"
)

// mux is the common part of this package and a comparable library, to measure both.
type mux struct {
	name   string
	open   func() (half, error)
	accept func() (half, error)
}

type half interface {
	io.ReadWriteCloser
	closeWrite()
}

type ours struct{ *Stream }

func (o ours) Close() error { o.Stream.Close(); return nil }
func (o ours) closeWrite()  { o.CloseWrite() }

type theirs struct{ *yamux.Stream }

func (y theirs) closeWrite() { y.Close() }

func muxes(b *testing.B) []mux {
	host, guest := sessions(b)
	c, s := socketPair(b)
	config := yamux.DefaultConfig()
	config.LogOutput = io.Discard
	config.MaxStreamWindowSize = InitialCredit
	client, err := yamux.Client(noDelay{c}, config)
	if err != nil {
		b.Fatal(err)
	}
	server, err := yamux.Server(noDelay{s}, config)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { client.Close(); server.Close() })
	return []mux{
		{"wire", func() (half, error) { st, err := host.Open(); return ours{st}, err },
			func() (half, error) { st, err := guest.Accept(); return ours{st}, err }},
		{"yamux", func() (half, error) { st, err := client.OpenStream(); return theirs{st}, err },
			func() (half, error) { st, err := server.AcceptStream(); return theirs{st}, err }},
	}
}

// noDelay hides a connection's other methods, so that both get the same.
type noDelay struct{ net.Conn }

func each(b *testing.B, f func(b *testing.B, m mux)) {
	for _, m := range muxes(b) {
		b.Run(m.name, func(b *testing.B) { f(b, m) })
	}
}

// BenchmarkCall opens a stream, sends a small request and waits for the small answer and the end.
func BenchmarkCall(b *testing.B) {
	each(b, func(b *testing.B, m mux) {
		go func() {
			for {
				st, err := m.accept()
				if err != nil {
					return
				}
				go func() {
					var p [64]byte
					io.ReadFull(st, p[:])
					st.Write(p[:])
					st.Close()
				}()
			}
		}()
		for b.Loop() {
			st, err := m.open()
			if err != nil {
				b.Fatal(err)
			}
			var p [64]byte
			st.Write(p[:])
			if _, err := io.ReadFull(st, p[:]); err != nil {
				b.Fatal(err)
			}
			io.ReadFull(st, p[:1])
			st.Close()
		}
	})
}

// BenchmarkPing sends small messages back and forth on one stream.
func BenchmarkPing(b *testing.B) {
	each(b, func(b *testing.B, m mux) {
		go func() {
			st, err := m.accept()
			if err == nil {
				io.Copy(st, st)
			}
		}()
		st, err := m.open()
		if err != nil {
			b.Fatal(err)
		}
		defer st.Close()
		var p [64]byte
		for b.Loop() {
			st.Write(p[:])
			if _, err := io.ReadFull(st, p[:]); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkThroughput sends pieces of 32 KiB one way, as output does.
func BenchmarkThroughput(b *testing.B) {
	each(b, func(b *testing.B, m mux) { throughput(b, m) })
}

// BenchmarkThroughputBesideStopped does it while another stream's reader has stopped.
func BenchmarkThroughputBesideStopped(b *testing.B) {
	each(b, func(b *testing.B, m mux) {
		slow, err := m.open()
		if err != nil {
			b.Fatal(err)
		}
		go slow.Write(make([]byte, 2*InitialCredit))
		if _, err := m.accept(); err != nil {
			b.Fatal(err)
		}
		throughput(b, m)
		slow.Close()
	})
}

func throughput(b *testing.B, m mux) {
	const piece = 32 << 10
	b.SetBytes(piece)
	done := make(chan int64, 1)
	go func() {
		st, err := m.accept()
		if err != nil {
			return
		}
		buf := make([]byte, piece)
		var n int64
		for {
			k, err := st.Read(buf)
			n += int64(k)
			if err != nil {
				done <- n
				return
			}
		}
	}()
	st, err := m.open()
	if err != nil {
		b.Fatal(err)
	}
	p := make([]byte, piece)
	var n int64
	for b.Loop() {
		if _, err := st.Write(p); err != nil {
			b.Fatal(err)
		}
		n += piece
	}
	st.closeWrite()
	if got := <-done; got != n {
		b.Fatal(got, n)
	}
}

// BenchmarkPingBesideBulk measures small round trips beside a stream at full load: how long the one waits for the
// other. It also reports the worst round trip.
func BenchmarkPingBesideBulk(b *testing.B) {
	each(b, func(b *testing.B, m mux) {
		bulk, err := m.open()
		if err != nil {
			b.Fatal(err)
		}
		stop := make(chan struct{})
		go func() {
			p := make([]byte, 32<<10)
			for {
				if _, err := bulk.Write(p); err != nil {
					return
				}
				select {
				case <-stop:
					bulk.Close()
					return
				default:
				}
			}
		}()
		sink, err := m.accept()
		if err != nil {
			b.Fatal(err)
		}
		go io.Copy(io.Discard, sink)
		go func() {
			if st, err := m.accept(); err == nil {
				io.Copy(st, st)
			}
		}()
		st, err := m.open()
		if err != nil {
			b.Fatal(err)
		}
		var p [64]byte
		var worst time.Duration
		for b.Loop() {
			at := time.Now()
			st.Write(p[:])
			if _, err := io.ReadFull(st, p[:]); err != nil {
				b.Fatal(err)
			}
			worst = max(worst, time.Since(at))
		}
		b.ReportMetric(float64(worst.Microseconds()), "worst-µs")
		close(stop)
		st.Close()
	})
}
