package httpd

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/internal/room"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestShares: clients that want more than all may have wait for equal parts, and one that wants little never waits.
func TestShares(t *testing.T) {
	s, now := newShares(), time.Now()
	s.total = 1
	served := map[string]int{}
	wakes := map[string]time.Time{}
	const seconds, steps = 2, 1000 // steps a second
	for range seconds * steps {
		now = now.Add(time.Second / steps)
		for range 4 { // each wants 4 ms in each millisecond
			for _, owner := range []string{"one", "other"} {
				if !wakes[owner].After(now) {
					served[owner]++
					wakes[owner] = now.Add(s.use(owner, time.Millisecond, now))
				}
			}
		}
		if rest := s.use("little", time.Second/steps/10, now); rest > 0 {
			t.Fatal("a client that wants a tenth of what all may have waits ", rest)
		}
	}
	sum, apart := served["one"]+served["other"], served["one"]-served["other"]
	if most := seconds * steps; sum < most*8/10 || sum > most*11/10 || max(apart, -apart) > most/20 {
		t.Errorf("they were served %v times, of %d", served, most)
	}
	if s.use("new", 0, now.Add(time.Minute)); len(s.each) != 1 {
		t.Errorf("%d clients are kept", len(s.each))
	}
}

// TestAnswerCost: the bytes of a large answer, and those that a small body becomes, are work for their client.
func TestAnswerCost(t *testing.T) {
	const pieces = 16
	data := make([]byte, pieces*paceBytes)
	for name, do := range map[string]func(*Response) error{
		"answer": func(w *Response) error {
			w.Header().Set("Content-Type", api.MediaJSON)
			_, err := w.Write(data)
			return err
		},
		"unpacked": func(w *Response) error {
			_, err := io.Copy(io.Discard, w.Working(bytes.NewReader(data)))
			return err
		},
		"decoded": func(w *Response) error { w.Work(len(data)); return nil },
		"event of a log": func(w *Response) error {
			s := &Server{answers: room.Halves(1 << 30), waits: defaultWaits}
			_, err := s.RoomForEvents(w, 1)(t.Context(), int64(len(data)))
			return err
		},
	} {
		w := NewResponse(httptest.NewRecorder(), time.Minute)
		shares := newShares()
		shares.total = 0.1
		w.cost.begin(shares, "one")
		began := time.Now()
		if err := do(w); err != nil {
			t.Fatal(err)
		}
		if took, least := time.Since(began), 10*(pieces-1)*encodeTime-sharesBurst; took < least {
			t.Errorf("%s: it took %s, but its work takes %s", name, took, least)
		}
	}
}

// TestRulesCost: the texts of a network are work, those beyond ASCII much more, and routes are asked for.
func TestRulesCost(t *testing.T) {
	names := func(n int, text string) (list []string) {
		for range n {
			list = append(list, strings.Repeat(text, 60/len(text)))
		}
		return list
	}
	for _, c := range []struct {
		policy sandbox.NetworkPolicy
		want   time.Duration
	}{
		{sandbox.NetworkPolicy{Allow: names(500, "x"), Deny: names(500, "x")}, 60_000 * ruleTime},
		{sandbox.NetworkPolicy{Inspect: names(1000, "\u4e00")}, 60_000 * wideTime},
		{sandbox.NetworkPolicy{Secrets: []sandbox.Secret{{Hosts: names(1, "x"), Value: names(1, "x")[0]}}},
			120 * ruleTime},
		{sandbox.NetworkPolicy{Allow: []string{"9.9.9.9", "9.9.9.9/32:80-90"}}, 23*ruleTime + 2*routeTime},
		{sandbox.NetworkPolicy{Allow: []string{"[64:ff9b::1.1.1.1]:80", "a1.de"}}, 26*ruleTime + 2*routeTime},
		{sandbox.NetworkPolicy{Allow: names(100_000, "\u4e00")}, 0},
	} {
		w, shares := NewResponse(httptest.NewRecorder(), time.Minute), newShares()
		w.cost.begin(shares, "one")
		w.Rules(&c.policy)
		w.cost.pay()
		if got := shares.noted - requestTime; got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}

// TestSharesOfAddresses: however many addresses want more than all may have, a key gets its part beside them.
func TestSharesOfAddresses(t *testing.T) {
	s, now := newShares(), time.Now()
	s.total = 1
	served, wakes := map[string]int{}, map[string]time.Time{}
	owners := []string{"key a"}
	for i := range 50 {
		owners = append(owners, addressOwner+strconv.Itoa(i))
	}
	const seconds, steps = 10, 1000 // steps a second
	for range seconds * steps {
		now = now.Add(time.Second / steps)
		for _, owner := range owners {
			if !wakes[owner].After(now) {
				served[owner]++
				wakes[owner] = now.Add(s.use(owner, time.Millisecond, now))
			}
		}
	}
	sum := 0
	for _, owner := range owners[1:] {
		sum += served[owner]
	}
	if part := seconds * steps / 2; served["key a"] < part*8/10 || sum > part*13/10 {
		t.Errorf("the key was served %d times, the addresses %d times", served["key a"], sum)
	}
}

// TestAdmitCost: what a request with a token costs is work of its key, not of its address, which others may have.
func TestAdmitCost(t *testing.T) {
	key, err := NewKey("a", NewSecret())
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{config: Config{Keys: NewKeyring(key)}, shares: newShares()}
	for _, id := range []Identity{{}, key.Hash} {
		w := NewResponse(httptest.NewRecorder(), time.Minute)
		w.owner = addressOwner + "192.0.2.1"
		w.cost.begin(s.shares, w.owner)
		if err := s.Admit(w, httptest.NewRequest("GET", "/", nil), id); err != nil {
			t.Fatal(err)
		}
		if s.shares.each[w.owner] == nil || len(s.shares.each) != 1 {
			t.Errorf("the work of %s is of %v", w.owner, s.shares.each)
		}
		clear(s.shares.each)
	}
}

// TestBodyCost: each read of a body is work, as it parses up to 4 KiB of chunks for some bytes; so is each of a body
// that was refused.
func TestBodyCost(t *testing.T) {
	const reads = 5000
	s := &Server{config: Config{MaxBody: 1 << 20, MaxFile: 1 << 20}, bodies: room.Halves(1 << 30), waits: defaultWaits,
		stopping: context.Background()}
	for name, read := range map[string]func(w *Response, r *http.Request) error{
		"whole": func(w *Response, r *http.Request) error {
			b, err := s.ReadBytes(w, r)
			b.Release()
			return err
		},
		"stream": func(w *Response, r *http.Request) error {
			body, err := s.StreamBody(w, r, 1<<20)
			if err == nil {
				_, err = io.Copy(io.Discard, body)
			}
			return err
		},
		"refused": func(w *Response, r *http.Request) error {
			s.drain(w, r)
			return nil
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := NewResponse(httptest.NewRecorder(), time.Minute)
			shares := newShares()
			shares.total = 1
			w.cost.begin(shares, "one")
			began := time.Now()
			body := iotest.OneByteReader(bytes.NewReader(make([]byte, reads)))
			if err := read(w, httptest.NewRequest("PUT", "/", body)); err != nil {
				t.Fatal(err)
			}
			if took, least := time.Since(began), reads*readTime-sharesBurst-encodeTime; took < least {
				t.Errorf("%s: it took %s, but its work takes %s", name, took, least)
			}
		})
	}
}

// TestValueCost: each value of a JSON body is work.
func TestValueCost(t *testing.T) {
	const values = 1000
	s := &Server{config: Config{MaxBody: 1 << 20}, bodies: room.Halves(1 << 30), waits: defaultWaits}
	w := NewResponse(httptest.NewRecorder(), time.Minute)
	text := "[" + strings.Repeat("0,", values-1) + "0]"
	b, err := s.ReadBody(w, httptest.NewRequest("POST", "/", strings.NewReader(text)))
	if b.Release(); err != nil || w.cost.unpaid.Load() < int64(values*valueTime) {
		t.Errorf("%d ns of work: %v", w.cost.unpaid.Load(), err)
	}
}

// TestConnectionCost: long heads, frames of HTTP/2 that are not of bodies and handshakes are work, also of connections
// that end. Usual heads and bodies are none, and an address with much work begins no connection.
func TestConnectionCost(t *testing.T) {
	const frames = 4 << 20
	var c *connections
	open := func(http2 bool) *known {
		conn := &known{from: "192.0.2.1:1"}
		c.state(conn, http.StateNew)
		if http2 {
			c.active(conn, true)
		}
		return conn
	}
	send := func(t *testing.T, conn *known, n int, handshake bool) {
		if err := c.work(conn, arrival{bytes: n, handshake: handshake}); err != nil {
			t.Fatal(err)
		}
	}
	for name, one := range map[string]struct {
		do   func(*testing.T)
		want time.Duration
	}{
		"usual heads": {func(t *testing.T) {
			conn := open(false)
			for range frames / usualHead {
				send(t, conn, usualHead, false)
				c.active(conn, false)
				c.endHead(conn, usualHead)
				c.state(conn, http.StateIdle)
			}
			c.end(conn)
		}, 0},
		"heads with bodies behind them": {func(t *testing.T) {
			conn := open(false)
			for range 100 {
				send(t, conn, usualHead, false)
				send(t, conn, 8*usualHead, false)
				c.active(conn, false)
				if work := c.endHead(conn, 3*usualHead); work != 2*usualHead*besideTime {
					t.Fatalf("%s of work", work)
				}
				send(t, conn, 8*usualHead, false)
				c.state(conn, http.StateIdle)
			}
			c.end(conn)
		}, 0},
		"a long head in parts": {func(t *testing.T) {
			conn := open(false)
			for range frames / usualHead {
				send(t, conn, usualHead, false)
			}
			c.active(conn, false)
			if work := c.endHead(conn, frames); work != usualHead*besideTime {
				t.Fatalf("%s of work", work)
			}
			c.end(conn)
		}, (frames - 2*usualHead) * besideTime},
		"a long head": {func(t *testing.T) {
			conn := open(false)
			send(t, conn, frames, false)
			c.end(conn)
		}, frames * besideTime},
		"a body": {func(t *testing.T) {
			conn := open(true)
			for range frames >> 10 {
				send(t, conn, 1<<10, false)
				c.read(conn, 1<<10)
			}
			c.end(conn)
		}, 0},
		"frames": {func(t *testing.T) {
			conn := open(true)
			send(t, conn, frames-receiveBuffer, false)
			send(t, conn, receiveBuffer, false)
			c.end(conn)
		}, frames * besideTime},
		"answers of requests": {func(t *testing.T) {
			conn := open(true)
			for range frames >> 12 {
				c.sends(conn, 1<<12)
				c.sends(conn, 1<<12)
				c.sends(conn, -1<<12)
				c.sent(conn, 1<<12+1<<8)
			}
			c.end(conn)
		}, 0},
		"answers of net/http": {func(t *testing.T) {
			conn := open(true)
			c.sent(conn, frames+freeFrames)
			c.end(conn)
		}, frames * sentTime},
		"frames before each of many requests": {func(t *testing.T) {
			conn := open(true)
			for range frames / usualHead / 4 {
				c.active(conn, true)
				send(t, conn, 4*usualHead, false)
				c.state(conn, http.StateIdle)
			}
			c.end(conn)
		}, frames * besideTime},
		"handshakes": {func(t *testing.T) {
			for range 500 {
				conn := open(false)
				send(t, conn, 1<<10, true)
				c.end(conn)
			}
		}, 500 * handshakeTime},
		"too many": {func(t *testing.T) {
			c.shares.use(addressOwner+"192.0.2.1", time.Hour, time.Now())
			if err := c.work(open(false), arrival{bytes: 1 << 10, handshake: true}); err == nil {
				t.Error("an address with much work begins a connection")
			}
		}, sharesDebt},
	} {
		synctest.Test(t, func(t *testing.T) {
			c = newConnections(8, func() {})
			c.shares = newShares()
			c.shares.total = 1
			began := time.Now()
			one.do(t)
			got := time.Since(began)
			for _, a := range c.shares.each {
				got += time.Until(a.due)
			}
			if got < one.want-one.want/10 || got > one.want+one.want/10 {
				t.Errorf("%s: %s of work, want %s", name, got, one.want)
			}
		})
	}
}

// TestAfford: of many requests that begin work at a time, some wait, and those that would wait too long are refused.
// One that takes long alone is not.
func TestAfford(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, began, requests := newShares(), time.Now(), 300
		s.total = 1
		var refused atomic.Int32
		var all sync.WaitGroup
		for range requests {
			all.Go(func() {
				c := newCost()
				c.begin(s, "key")
				if err := c.afford(10 * time.Millisecond); err != nil {
					refused.Add(1)
				}
			})
		}
		all.Wait()
		served := requests - int(refused.Load())
		if most := int((sharesWait + sharesBurst) / (10 * time.Millisecond)); served > most+1 || served < most/2 ||
			time.Since(began) > sharesWait {
			t.Errorf("%d of %d were served within %s", served, requests, time.Since(began))
		}
		time.Sleep(sharesDebt)
		c := newCost()
		c.begin(s, "key")
		if err := c.afford(time.Minute); err != nil {
			t.Error(err)
		}
	})
}

// TestSettled: the little work that a request leaves unpaid counts, also that of another goroutine, and if the handler
// cuts the connection.
func TestSettled(t *testing.T) {
	s := newServer(t, Config{})
	work := func(w *Response) error {
		w.Steps(10)
		_, err := w.Working(strings.NewReader("abc")).Read(make([]byte, 3))
		return err
	}
	s.Handle(Route{Method: "GET", Path: "/whole", Handler: func(w *Response, _ *http.Request) error { return work(w) }})
	s.Handle(Route{Method: "GET", Path: "/cut", Handler: func(w *Response, _ *http.Request) error {
		panic(errors.Join(work(w), http.ErrAbortHandler))
	}})
	for _, path := range []string{"/whole", "/cut"} {
		before := s.shares.seconds(&s.shares.noted)
		r := httptest.NewRequest("GET", path, nil)
		r.Host = "localhost"
		func() {
			defer func() { _ = recover() }()
			s.Handler().ServeHTTP(httptest.NewRecorder(), r)
		}()
		if got := s.shares.seconds(&s.shares.noted) - before; got <= (requestTime + 10*stepTime).Seconds() {
			t.Errorf("%s: %f s of work", path, got)
		}
	}
}

// TestHeadCost: a head of HTTP/2 counts as it was decoded, however few bytes came for it.
func TestHeadCost(t *testing.T) {
	s := newServer(t, Config{})
	s.Handle(Route{Method: "GET", Path: "/", Handler: func(*Response, *http.Request) error { return nil }})
	server := httptest.NewUnstartedServer(nil)
	server.Config, server.EnableHTTP2 = s.HTTPServer(), true
	server.StartTLS()
	defer server.Close()
	for range 2 { // the second refers to the first
		before := s.shares.seconds(&s.shares.noted)
		r, _ := http.NewRequest("GET", server.URL, nil)
		r.Header.Set("X", strings.Repeat("x", 3*usualHead/2))
		response, err := server.Client().Do(r)
		if err != nil || response.ProtoMajor != 2 {
			t.Fatal(response, err)
		}
		_ = response.Body.Close()
		want := (requestTime + usualHead/2*besideTime).Seconds()
		if got := s.shares.seconds(&s.shares.noted) - before; got < want {
			t.Errorf("%f s of work, want %f", got, want)
		}
	}
}

// TestResetCost: a request of HTTP/2 that is reset, as too many others are refused, is work of its connection.
func TestResetCost(t *testing.T) {
	const most = 4
	c, conn := newConnections(most, func() {}), &known{from: "192.0.2.1:1"}
	c.state(conn, http.StateNew)
	c.active(conn, true)
	c.admit(conn, "key")
	begin := func() (r *http.Request, err error) {
		r = httptest.NewRequest("GET", "/", nil)
		r.Header.Set("X", strings.Repeat("x", 2*usualHead-len("X: \r\n/")))
		r.RemoteAddr = conn.from
		r = r.WithContext(c.context(r.Context(), conn))
		r, _, err = beginStream(NewResponse(httptest.NewRecorder(), time.Second), r)
		return r, err
	}
	r, err := begin()
	if err = errors.Join(err, admitted(r.Context(), "key")); err != nil {
		t.Fatal(err)
	}
	for range most / 2 {
		if _, err := begin(); err == nil {
			t.Fatal("a request is counted past the limit")
		}
	}
	defer func() {
		if got := c.open[conn].unpaid; recover() == nil || got != requestTime+usualHead*besideTime {
			t.Errorf("%s of work", got)
		}
	}()
	_, _ = begin()
}

// TestUnreadBody: a body of HTTP/2 that no handler reads does not count as frames beside bodies.
func TestUnreadBody(t *testing.T) {
	const size = 100 << 10
	var carried carriers
	beside := func() int {
		carried.mu.Lock()
		defer carried.mu.Unlock()
		return carried.open[carried.each[0]].beside
	}
	s := newServer(t, Config{})
	s.Handle(Route{Method: "POST", Path: "/", Handler: func(_ *Response, r *http.Request) error {
		carried = r.Context().Value(carrier{}).(carriers)
		for beside() < size*3/4 { // most of the body has not come
			time.Sleep(time.Millisecond)
		}
		return nil
	}})
	server := httptest.NewUnstartedServer(nil)
	server.Config, server.EnableHTTP2, server.Listener = s.HTTPServer(), true, Listen(server.Listener)
	server.StartTLS()
	defer server.Close()
	response, err := server.Client().Post(server.URL, "", bytes.NewReader(make([]byte, size)))
	if err != nil || response.ProtoMajor != 2 {
		t.Fatal(response, err)
	}
	_ = response.Body.Close()
	if n := beside(); n > size/2 {
		t.Errorf("%d bytes of the body count as frames", n)
	}
}
