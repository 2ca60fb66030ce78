package wire

import (
	"errors"
	"testing"
	"time"
)

// TestSendLater: a message that may arrive later arrives with the next one in the same read, or alone.
func TestSendLater(t *testing.T) {
	a, b := socketPair(t)
	host := NewSession(a, Host)
	defer host.Close()
	streams := [2]*Stream{}
	for i := range streams {
		var err error
		if streams[i], err = host.Open(); err != nil {
			t.Fatal(err)
		}
	}
	want := func(n int) {
		t.Helper()
		got, err := b.Read(make([]byte, 1<<10))
		if frames := 2*headerSize + messageHeader + len("body"); err != nil || got != n*frames {
			t.Errorf("%d bytes in a read, want those of %d messages: %v", got, n, err)
		}
	}
	defer func(before time.Duration) { laterMost = before }(laterMost)
	laterMost = time.Hour
	err := streams[0].SendLastLater(1, []byte("body"))
	if err := errors.Join(err, streams[1].SendLast(1, []byte("body"))); err != nil {
		t.Fatal(err)
	}
	want(2)
	laterMost = time.Microsecond
	st, err := host.Open()
	if err := errors.Join(err, st.SendLastLater(1, []byte("body"))); err != nil {
		t.Fatal(err)
	}
	want(1)
}
