package wire

import (
	"bytes"
	"io"
	"testing"
	"time"
)

// TestPeerThatSendsNothing: a peer that floods its connection with frames that carry nothing loses it, as reading them
// takes far more CPU time than sending them.
func TestPeerThatSendsNothing(t *testing.T) {
	const ended, open = 1, 2 // streams
	for what, one := range map[string][]byte{
		"resets":          frame(ended, frameReset, ""),
		"ends":            frame(ended, frameEnd, ""),
		"lost credit":     frame(ended, frameCredit, credit(1<<20)),
		"lost data":       frame(ended, frameData, string(make([]byte, MaxFrame))),
		"empty data":      frame(open, frameData, ""),
		"little credit":   frame(open, frameCredit, credit(1)),
		"empty lost data": frame(ended, frameData, ""),
	} {
		a, b := socketPair(t)
		s := NewSession(b, Host)
		for range open {
			st, err := s.Open()
			if err == nil {
				_, err = st.Write([]byte("x"))
			}
			if err != nil {
				t.Fatal(err)
			}
			if st.id == ended {
				st.Reset()
			}
		}
		go io.Copy(io.Discard, a)
		flood := bytes.Repeat(one, max(1, MaxFrame/len(one)))
		for sent := 0; ; sent += len(flood) {
			if _, err := a.Write(flood); err != nil {
				break
			}
			if sent > 1<<30 {
				t.Fatalf("%s: %d bytes were read", what, sent)
			}
		}
		<-s.Done()
		if err := s.Err(); err != ErrProtocol {
			t.Errorf("%s: %v", what, err)
		}
		s.Close()
	}
}

// TestWaste: a peer may send some such frames, and those of many streams that the host has reset at once.
func TestWaste(t *testing.T) {
	var w waste
	now := time.Now()
	for range 1000 * InitialCredit / MaxFrame {
		if !w.take(MaxFrame, now) {
			t.Fatal("the data of a thousand streams is too much")
		}
	}
	for range 10 * wasteBurst {
		if now = now.Add(time.Second / wasteRate * 2); !w.take(0, now) {
			t.Fatal("half of the rate is too much")
		}
	}
}
