package wire

import (
	"errors"
	"io"
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

// TestIdleRing: a stream whose reader waits frees the buffer that a burst has filled, and loses nothing.
func TestIdleRing(t *testing.T) {
	host, guest := sessions(t)
	st, err := host.Open()
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = st.Write(make([]byte, InitialCredit)) }()
	other, err := guest.Accept()
	if err != nil {
		t.Fatal(err)
	}
	for buffered := 0; buffered < InitialCredit; buffered = other.Buffered() {
		time.Sleep(time.Millisecond)
	}
	if _, err := io.ReadFull(other, make([]byte, InitialCredit)); err != nil {
		t.Fatal(err)
	}
	got := make(chan byte)
	go func() {
		b := make([]byte, 1)
		_, _ = other.Read(b)
		got <- b[0]
	}()
	for held := InitialCredit; held > 0; time.Sleep(time.Millisecond) {
		guest.mu.Lock()
		held = other.ring.Cap()
		guest.mu.Unlock()
	}
	if _, err := st.Write([]byte{7}); err != nil || <-got != 7 {
		t.Error("what came after the burst is lost", err)
	}
}
