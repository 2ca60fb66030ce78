package httpd

import (
	"bytes"
	"io"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/api"
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
	if s.use("new", 0, now.Add(time.Minute)); len(s.due) != 1 {
		t.Errorf("%d clients are kept", len(s.due))
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
