package docker

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// faulty is a proxy before an engine that spoils one kind of call, always or the first few times.
type faulty struct {
	engine http.Handler

	mu    sync.Mutex
	call  string // of a method and a part of a path: "POST /start"
	fault string
	times int
	ended chan struct{}
}

// The faults.
const (
	faultError = "error" // the engine answers that it failed
	faultDrop  = "drop"  // the connection is refused
	faultCut   = "cut"   // the engine carries it out, but the answer is lost
	faultHang  = "hang"  // no answer ever comes
)

func (f *faulty) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	method, part, _ := strings.Cut(f.call, " ")
	spoil := f.times > 0 && r.Method == method && strings.Contains(r.URL.Path, part)
	if spoil {
		f.times--
	}
	fault := f.fault
	f.mu.Unlock()
	if !spoil {
		f.engine.ServeHTTP(w, r)
		return
	}
	switch fault {
	case faultError:
		http.Error(w, `{"message":"spoilt"}`, http.StatusInternalServerError)
		return
	case faultHang:
		select {
		case <-r.Context().Done():
		case <-f.ended:
		}
	case faultCut:
		f.engine.ServeHTTP(&silent{}, r)
	}
	panic(http.ErrAbortHandler) // hangs up
}

// silent discards an answer.
type silent struct{ header http.Header }

func (s *silent) Header() http.Header {
	if s.header == nil {
		s.header = http.Header{}
	}
	return s.header
}
func (s *silent) Write(p []byte) (int, error) { return len(p), nil }
func (s *silent) WriteHeader(int)             {}

func (f *faulty) spoil(call, fault string, times int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.call, f.fault, f.times = call, fault, times
}

// before puts a faulty proxy before the engine of the options, and returns the changed options.
func before(t *testing.T, o Options) (*faulty, Options) {
	t.Helper()
	target := strings.TrimPrefix(o.Host, "unix://")
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "engine"})
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn,
		error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", target)
	}}
	proxy.Transport, proxy.FlushInterval = transport, -1
	f := &faulty{engine: proxy, ended: make(chan struct{})}
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: f, ReadHeaderTimeout: stepTimeout}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(l)
	}()
	t.Cleanup(func() {
		close(f.ended)
		server.Close()
		<-served
		transport.CloseIdleConnections()
	})
	o.Host = "unix://" + path
	return f, o
}

// calls lists the calls of a creation, in order.
var calls = []string{"POST /containers/create", "POST /attach", "POST /start", "GET /containers/fumehood-"}

// TestFaults spoils each call of a creation in each way: creation fails within its timeout or returns a working box,
// and leaves nothing behind.
func TestFaults(t *testing.T) {
	each(t, func(t *testing.T, o Options) {
		create(t, open(t, o), spec()).Close() // the guest is there
		f, o := before(t, o)
		for _, call := range calls {
			for _, fault := range []string{faultError, faultDrop, faultCut, faultHang} {
				t.Run(call+" "+fault, func(t *testing.T) {
					b := open(t, o)
					b.engine.most = 10 * time.Second
					connected(t, b)
					f.spoil(call, fault, 1)
					if fault == faultHang { // a busy engine takes seconds for the other calls
						b.engine.most = 5 * time.Second
					}
					s := spec()
					box, err := b.Create(within(t), s)
					f.spoil("", "", 0)
					b.engine.most = 0
					if err != nil {
						t.Logf("%v", err)
					} else if out := run(t, box, "echo whole"); out != "whole\n" {
						t.Errorf("the box says %q", out)
					}
					if err == nil {
						if err := box.Close(); err != nil {
							t.Error(err)
						}
					}
					if l := left(t, b, s.ID); len(l) > 0 {
						t.Errorf("left behind: %v", l)
					}
				})
			}
		}
	})
}

// TestUndoFails spoils the removal of the container of a failed creation. The same server removes it later, or the next
// start does.
func TestUndoFails(t *testing.T) {
	each(t, func(t *testing.T, o Options) {
		create(t, open(t, o), spec()).Close() // the guest is there
		f, o := before(t, o)
		next := open(t, o)
		o.FailAt = failAttach
		b := open(t, o)
		b.engine.most = 5 * time.Second
		connected(t, b)
		f.spoil("DELETE /containers/", faultHang, 1)
		s := spec()
		if _, err := b.Create(within(t), s); err == nil || !strings.Contains(err.Error(), "remove container") {
			t.Fatalf("got %v", err)
		}
		f.spoil("", "", 0)
		for end := time.Now().Add(20 * time.Second); len(left(t, b, s.ID)) > 0; time.Sleep(50 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("left behind: %v", left(t, b, s.ID))
			}
		}
		f.spoil("DELETE /containers/", faultHang, 1)
		s = spec()
		if _, err := b.Create(within(t), s); err == nil || !strings.Contains(err.Error(), "remove container") {
			t.Fatalf("got %v", err)
		}
		f.spoil("", "", 0)
		abandon(t, b)
		if err := next.Reap(within(t)); err != nil {
			t.Error(err)
		}
		if l := left(t, next, s.ID); len(l) > 0 {
			t.Errorf("left behind: %v", l)
		}
	})
}

// fillCalls lists the calls that copy the guest.
var fillCalls = []string{"POST /volumes/create", "POST /containers/create", "PUT /archive", "DELETE /containers/"}

// TestFillFaults spoils each call that copies the guest: no container is left behind.
func TestFillFaults(t *testing.T) {
	each(t, func(t *testing.T, o Options) {
		f, o := before(t, o)
		for _, call := range fillCalls {
			for _, fault := range []string{faultError, faultDrop, faultCut} {
				o.Guest = ownGuest(t)
				b := open(t, o)
				b.engine.most = 10 * time.Second
				connected(t, b)
				f.spoil(call, fault, 1)
				s := spec()
				box, err := b.Create(within(t), s)
				f.spoil("", "", 0)
				if err == nil {
					err = box.Close()
				}
				t.Logf("%s %s: %v", call, fault, err)
				if l := left(t, b, s.ID); len(l) > 0 {
					t.Errorf("%s %s: left behind: %v", call, fault, l)
				}
				for _, volume := range b.engine.filled {
					for _, name := range []string{volume, volume + readySuffix} {
						_, _ = connected(t, b).api.VolumeRemove(within(t), name, client.VolumeRemoveOptions{})
					}
				}
			}
		}
	})
}

// TestRemovalFails spoils the removal of a container a few times; in the end it is removed.
func TestRemovalFails(t *testing.T) {
	each(t, func(t *testing.T, o Options) {
		f, o := before(t, o)
		for _, fault := range []string{faultError, faultDrop, faultCut} {
			b := open(t, o)
			box := create(t, b, spec())
			f.spoil("DELETE /containers/", fault, 3)
			if err := box.Close(); err != nil {
				t.Errorf("%s: %v", fault, err)
			}
			f.spoil("", "", 0)
			if l := left(t, b, box.Sandbox); len(l) > 0 {
				t.Errorf("%s: left behind: %v", fault, l)
			}
		}
	})
}

// TestHangs: an engine that accepts connections and never answers is reported, from the start or later.
func TestHangs(t *testing.T) {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	b := open(t, Options{Name: Name, Host: "unix://" + l.Addr().String(), RunDir: filepath.Join(t.TempDir(), "run")})
	if _, err := b.Probe(context.Background()); sandbox.KindOf(err) != sandbox.Unavailable ||
		!strings.Contains(err.Error(), "hangs") {
		t.Errorf("got %v", err)
	}
	// If the caller's own deadline is shorter, the error does not blame the engine.
	brief, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if _, err := b.Probe(brief); !errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "hangs") {
		t.Errorf("within the caller's time it says %v", err)
	}
	// Nor does the caller wait for others who are connecting.
	b.engine.connecting <- struct{}{}
	if _, err := b.Probe(brief); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while others ask it says %v", err)
	}
	if _, err := b.Probe(context.Background()); sandbox.KindOf(err) != sandbox.Unavailable ||
		!strings.Contains(err.Error(), "hangs") {
		t.Errorf("while others wait for it, it says %v", err)
	}
	if err := b.engine.close(); err != nil {
		t.Error(err)
	}
	<-b.engine.connecting
}

// TestHangsLater: an engine that answers only the ping also times out.
func TestHangsLater(t *testing.T) {
	each(t, func(t *testing.T, o Options) {
		f, o := before(t, o)
		for _, call := range []string{"GET /version", "GET /info"} {
			f.spoil(call, faultHang, 1)
			b := open(t, o)
			if _, err := b.Probe(context.Background()); sandbox.KindOf(err) != sandbox.Unavailable ||
				!strings.Contains(err.Error(), "within "+factsTimeout.String()) {
				t.Errorf("%s: got %v", call, err)
			}
		}
	})
}

// TestTooOld: an engine whose API version this client does not support is reported.
func TestTooOld(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{ReadHeaderTimeout: stepTimeout, Handler: http.HandlerFunc(func(w http.ResponseWriter,
		_ *http.Request) {
		w.Header().Set("Api-Version", "1.24")
	})}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(l)
	}()
	defer func() { server.Close(); <-served }()
	b := open(t, Options{Name: Name, Host: "unix://" + path, RunDir: filepath.Join(t.TempDir(), "run")})
	if _, err := b.engine.connect(within(t), stepTimeout); sandbox.KindOf(err) != sandbox.Unsupported ||
		!strings.Contains(err.Error(), "too old") {
		t.Errorf("got %v", err)
	}
}
