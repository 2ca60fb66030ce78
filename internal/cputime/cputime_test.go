package cputime

import (
	"context"
	"testing"
	"time"
)

// work takes CPU time until the process has taken so much more.
func work(d time.Duration) {
	for end := Process() + d; Process() < end; {
	}
}

// TestMeasurement: time counts for the client of a goroutine and of the goroutines that it starts, except for that
// beside it.
func TestMeasurement(t *testing.T) {
	m, err := Start()
	if err != nil {
		t.Skip(err) // go test -cpuprofile
	}
	if _, err := Start(); err == nil {
		t.Error("two measurements at once")
	}
	before := Process()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		ctx := Label(context.Background(), "alice")
		work(200 * time.Millisecond)
		back := Aside(ctx)
		work(200 * time.Millisecond)
		back()
		started := make(chan struct{})
		go func() { work(200 * time.Millisecond); close(started) }()
		<-started
		Label(ctx, "bob")
		work(100 * time.Millisecond)
	}()
	<-ended
	all := Process() - before
	clients, err := m.Stop()
	if err != nil {
		t.Fatal(err)
	}
	alice, bob := clients["alice"], clients["bob"]
	if len(clients) != 2 || bob == 0 || alice < 2*bob || alice+bob > all-100*time.Millisecond {
		t.Errorf("%v of %v", clients, all)
	}
}

// TestDecode: a profile that breaks off is an error.
func TestDecode(t *testing.T) {
	if _, err := decode([]byte{profileSample<<3 | 2, 100}); err == nil {
		t.Error("accepted")
	}
}
