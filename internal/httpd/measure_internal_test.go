package httpd

import (
	"net/http"
	"net/http/httptest"
	"runtime/pprof"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/internal/cputime"
)

// TestCorrect: a measurement charges a client its CPU time above the estimate, less what the estimate of the measurement
// before was too high.
func TestCorrect(t *testing.T) {
	s, now := newShares(), time.Now()
	s.total = 1
	window := func(noted, measured map[string]time.Duration) time.Duration {
		before := s.corrected
		s.startCount()
		for owner, work := range noted {
			s.use(owner, work, now)
		}
		s.correct(measured, now)
		return s.corrected - before
	}
	const ms = time.Millisecond
	type times = map[string]time.Duration
	for _, c := range []struct {
		noted, measured times
		more            time.Duration
	}{
		{times{"one": 10 * ms, "other": 300 * ms}, times{"one": 900 * ms, "other": 250 * ms}, 890 * ms},
		{times{"one": 950 * ms, "other": 10 * ms}, times{"one": 950 * ms, "other": 80 * ms}, 20 * ms}, // and 50 before
	} {
		if got := window(c.noted, c.measured); got != c.more {
			t.Errorf("%v of %v: %v, not %v", c.noted, c.measured, got, c.more)
		}
	}
	if one, other := s.use("one", 0, now), s.use("other", 0, now); one < 900*ms || other > one {
		t.Errorf("they wait %v and %v", one, other)
	}
}

// TestAhead: what an address without a key has noted ahead is forgotten once it makes no more requests.
func TestAhead(t *testing.T) {
	s := newShares()
	for _, owners := range [][]string{{"key alice", "address ::1", "address ::2"}, {"address ::2"}} {
		s.startCount()
		for _, owner := range owners {
			s.use(owner, time.Millisecond, time.Now())
		}
		s.correct(nil, time.Now())
	}
	if len(s.ahead) != 2 || s.ahead["key alice"] != time.Millisecond || s.ahead["address ::2"] != 2*time.Millisecond {
		t.Error(s.ahead)
	}
}

// TestMeasure: a client whose requests take far more CPU time than is noted is refused before long.
func TestMeasure(t *testing.T) {
	m, err := cputime.Start()
	if err != nil {
		t.Skip(err) // go test -cpuprofile
	}
	if s := (&Server{shares: newShares()}); s.measure(t.Context()) || s.shares.counted != nil {
		t.Error("it counts without a measurement")
	}
	if _, err = m.Stop(); err != nil {
		t.Fatal(err)
	}
	s, server := startTLS(t, func(*http.Request) {
		for end := cputime.Process() + 20*time.Millisecond; cputime.Process() < end; {
		}
	})
	s.shares.total = 0.1
	defer s.Measure()()
	for status := 0; status != http.StatusTooManyRequests; {
		response, err := server.Client().Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		status = response.StatusCode
		_ = response.Body.Close()
	}
}

// TestLabelOfToken: a request that a token makes one of a key works for that key, which Admit charges.
func TestLabelOfToken(t *testing.T) {
	id := Identity{1}
	s := newServer(t, Config{Keys: NewKeyring(Key{Name: "alice", Hash: id})})
	got := ""
	s.Handle(Route{Method: "GET", Path: "/", Open: true, Handler: func(w *Response, r *http.Request) error {
		err := s.Admit(w, r, id)
		got, _ = pprof.Label(r.Context(), "client")
		return err
	}})
	s.Handler().ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "http://localhost/", nil))
	if got != "key alice" {
		t.Errorf("it works for %q", got)
	}
}
