//go:build linux

package egress

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/sandbox"
)

const (
	get    = "GET / HTTP/1.1\r\nHost: site.example\r\nUser-Agent: bench\r\nAccept: */*\r\n\r\n"
	answer = "HTTP/1.1 200 OK\r\nContent-Length: 64\r\nContent-Type: text/plain\r\n\r\n" +
		"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
)

// answers serves small requests.
func answers(c net.Conn) {
	b := make([]byte, len(get))
	for {
		if _, err := io.ReadFull(c, b); err != nil {
			return
		}
		if _, err := io.WriteString(c, answer); err != nil {
			return
		}
	}
}

func ask(c net.Conn) error {
	var got [len(answer)]byte
	if _, err := io.WriteString(c, get); err != nil {
		return err
	}
	_, err := io.ReadFull(c, got[:])
	return err
}

// TestMain is also the clients of the benchmarks: processes of their own, as programs in a sandbox are.
func TestMain(m *testing.M) {
	if len(os.Args) == 5 && os.Args[1] == "client" {
		n, _ := strconv.Atoi(os.Args[4])
		if err := client(os.Args[2], os.Args[3], n); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// client does something n times and prints how long each took, in nanoseconds.
func client(what, address string, n int) error {
	if what == "serve" {
		return serve(address)
	}
	var c net.Conn
	var all []net.Conn // all are held open to the end
	var err error
	for i := range n {
		began := time.Now()
		if what != "request" || i == 0 {
			if c, err = net.Dial("tcp", address); err != nil {
				return err
			}
		}
		if err := ask(c); err != nil {
			return err
		}
		switch what {
		case "connect":
			c.Close()
		case "hold":
			all = append(all, c)
		}
		fmt.Println(time.Since(began).Nanoseconds())
	}
	if all != nil {
		_, err = io.Copy(io.Discard, os.Stdin)
	}
	return err
}

// serve answers requests until its stdin ends.
func serve(address string) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go answers(c)
		}
	}()
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// times runs a client and returns how long each round took.
func times(b *testing.B, what, address string, n int, run func(string) string) []time.Duration {
	b.Helper()
	program, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	var list []time.Duration
	for _, line := range strings.Fields(run(fmt.Sprintf("%s client %s %s %d", program, what, address, n))) {
		ns, err := strconv.Atoi(line)
		if err != nil {
			b.Fatal(line)
		}
		list = append(list, time.Duration(ns))
	}
	return list
}

// quantiles reports times in microseconds.
func quantiles(b *testing.B, what string, times []time.Duration) {
	slices.Sort(times)
	for _, q := range []int{50, 99} {
		b.ReportMetric(float64(times[len(times)*q/100].Nanoseconds())/1000, fmt.Sprintf("us-%sp%d", what, q))
	}
}

func policies() map[string]sandbox.NetworkPolicy {
	restricted := allow("site.example")
	restricted.ConnectionRate = 1e6
	return map[string]sandbox.NetworkPolicy{"restricted": restricted,
		"full": {Mode: sandbox.NetworkFull, ConnectionRate: 1e6}}
}

// BenchmarkRequest is a small request on an open connection, direct and through the gate by turns.
func BenchmarkRequest(b *testing.B) { compare(b, "request", 2000) }

// BenchmarkConnect is a new connection, one small request, and its end.
func BenchmarkConnect(b *testing.B) { compare(b, "connect", 500) }

func compare(b *testing.B, what string, n int) {
	for mode, policy := range policies() {
		b.Run(mode, func(b *testing.B) {
			p, to := benchPlace(b, policy, answers)
			outside := func(script string) string {
				out, err := exec.Command("/bin/sh", "-c", script).CombinedOutput()
				if err != nil {
					b.Fatal(string(out))
				}
				return string(out)
			}
			var direct, through []time.Duration
			for b.Loop() {
				direct = append(direct, times(b, what, to, n, outside)...)
				through = append(through, times(b, what, site+":80", n, p.run)...)
			}
			quantiles(b, "direct-", direct)
			quantiles(b, "gate-", through)
		})
	}
}

func benchPlace(b *testing.B, policy sandbox.NetworkPolicy, serve func(net.Conn)) (*place, string) {
	p := newPlace(b, policy)
	to := listen(b, serve)
	p.world.at("tcp", site+":80", to)
	p.world.at("tcp", site+":9", to)
	p.world.name("site.example", site)
	if _, err := p.look("ip4", "site.example"); err != nil {
		b.Fatal(err)
	}
	return p, to
}

// BenchmarkStream is one stream of bytes, for each direction.
func BenchmarkStream(b *testing.B) {
	const size = 256 << 20
	for _, way := range []string{"down", "up"} {
		b.Run(way, func(b *testing.B) {
			p, _ := benchPlace(b, allow("site.example"), func(c net.Conn) {
				if way == "down" {
					_, _ = io.Copy(c, io.LimitReader(zeroes{}, size))
				} else {
					n, _ := io.Copy(io.Discard, c)
					_, _ = fmt.Fprint(c, n)
				}
			})
			b.SetBytes(size)
			for b.Loop() {
				c := p.mustDial("tcp", site+":9")
				if way == "up" {
					_, _ = io.Copy(c, io.LimitReader(zeroes{}, size))
					_ = c.(*net.TCPConn).CloseWrite()
				}
				n, err := io.Copy(io.Discard, c)
				if err != nil || way == "down" && n != size {
					b.Fatal(n, err)
				}
				c.Close()
			}
		})
	}
}

type zeroes struct{}

func (zeroes) Read(b []byte) (int, error) { return len(b), nil }

// BenchmarkIdle is the memory of a gate without traffic.
func BenchmarkIdle(b *testing.B) {
	const gates = 50
	before := resident()
	for range gates {
		newPlace(b, allow("site.example"))
	}
	for b.Loop() {
	}
	b.ReportMetric(float64(resident()-before)/gates/1024, "KiB/gate")
}

// BenchmarkHold is the memory of connections that are open, after one request on each.
func BenchmarkHold(b *testing.B) {
	const connections = 5000
	policy := allow("site.example")
	policy.MaxConnections, policy.ConnectionRate = connections, 1e6
	p, _ := benchPlace(b, policy, answers)
	lines := func(start func(func()), args ...string) *bufio.Scanner {
		cmd := exec.Command(os.Args[0], append([]string{"client"}, args...)...)
		in, _ := cmd.StdinPipe()
		out, _ := cmd.StdoutPipe()
		start(func() {
			if err := cmd.Start(); err != nil {
				b.Fatal(err)
			}
		})
		b.Cleanup(func() { in.Close(); _ = cmd.Wait() })
		return bufio.NewScanner(out)
	}
	server := lines(func(f func()) { f() }, "serve", "127.0.0.1:0", "1")
	server.Scan()
	p.world.at("tcp", site+":80", server.Text())
	before := resident()
	for b.Loop() {
		client := lines(p.do, "hold", site+":80", strconv.Itoa(connections))
		for range connections {
			if !client.Scan() || strings.Contains(client.Text(), " ") {
				b.Fatal(client.Text(), client.Err())
			}
		}
		b.ReportMetric(float64(resident()-before)/(1<<20), "MiB")
	}
}

// resident is the resident memory of this process in bytes, without what the collector could give back.
func resident() int {
	runtime.GC()
	debug.FreeOSMemory()
	b, _ := os.ReadFile("/proc/self/statm")
	pages, _ := strconv.Atoi(strings.Fields(string(b))[1])
	return pages * os.Getpagesize()
}
