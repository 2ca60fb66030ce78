package httpd

import (
	"bytes"
	"io"
	"testing"
	"testing/synctest"
	"time"
)

// slow takes some time for each read.
type slow struct {
	io.Reader
	read time.Duration
}

func (s slow) Read(p []byte) (int, error) {
	time.Sleep(s.read)
	return s.Reader.Read(p[:1])
}

// TestUnpacking: the time of unpacking is work, waits for the packed bytes and pauses between are not.
func TestUnpacking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := &Unpacking{cost: newCost()}
		from := u.Packed(slow{bytes.NewReader(make([]byte, 3)), time.Hour})
		to := u.Unpacked(slow{from, time.Second})
		for range 3 {
			if _, err := io.ReadFull(to, make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
		}
		if work := time.Duration(u.cost.unpaid.Load()); work != 3*time.Second {
			t.Errorf("%s of work", work)
		}
	})
}
