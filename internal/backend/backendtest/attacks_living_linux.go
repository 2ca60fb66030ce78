package backendtest

import (
	"bytes"
	"context"
	"io"
	"strings"
	"sync"

	"github.com/glovebox-dev/glovebox/internal/guest"
	"github.com/glovebox-dev/glovebox/internal/guest/client"
	"github.com/glovebox-dev/glovebox/sandbox"
)

// living is a sandbox in which a probe goes on while the host makes calls of its own.
type living struct {
	*client.Client
	tr      *trial
	box     sandbox.Box
	process *client.Process
	reading sync.WaitGroup

	mu     sync.Mutex // guards output and breach
	output []byte
}

// open makes a sandbox for the trial. The caller closes it.
func (tr *trial) open() *living {
	tr.Helper()
	s := spec()
	s.Limits = tr.limits.OrDefault(sandbox.DefaultLimits)
	s.AcceptWeaker = tr.accepts()
	s.Labels = map[string]string{labelTrial: tr.nonce}
	box, err := tr.arena.spy.Create(within(tr.T), s)
	if err != nil {
		tr.Fatalf("create: %v", err)
	}
	l := &living{tr: tr, box: box}
	conn, err := box.Dial(within(tr.T))
	if err == nil {
		l.Client, err = client.New(within(tr.T), conn, box.GuestKey())
	}
	if err != nil {
		l.close()
		tr.Fatalf("reach the guest: %v", err)
	}
	return l
}

// close ends the sandbox and looks at all that the probe has printed.
func (l *living) close() {
	l.tr.Helper()
	if err := l.box.Close(); err != nil {
		l.tr.Errorf("close: %v", err)
	}
	if l.process != nil {
		l.process.Close()
	}
	if l.Client != nil {
		_ = l.Client.Close() // its sandbox has gone first
	}
	l.reading.Wait()
	l.tr.noBreach(&sandbox.Result{Stdout: sandbox.Captured{Head: l.output}})
	l.tr.searched(&sandbox.Result{Stdout: sandbox.Captured{Head: l.output}})
}

// write puts a file into the sandbox.
func (l *living) write(path string, content []byte) error {
	return l.WriteFile(within(l.tr.T), guest.WriteFile{Path: path, Atomic: true, MakeParent: true}, bytes.NewReader(content))
}

// read returns what a file in the sandbox holds.
func (l *living) read(path string) (string, error) {
	var b bytes.Buffer
	_, err := l.ReadFile(within(l.tr.T), guest.ReadFile{Path: path}, &b)
	return b.String(), err
}

// launch starts the attack's probe and returns once it has printed "ready".
func (l *living) launch() {
	l.tr.Helper()
	language := attackLanguages[l.tr.lang]
	file := "/tmp/" + language.FileName
	if err := l.write(file, l.tr.source(l.tr.code)); err != nil {
		l.tr.Fatalf("write the probe: %v", err)
	}
	process, err := l.Start(within(l.tr.T), guest.Start{ID: string(sandbox.NewID()), Argv: language.Argv(language.Programs[0], file),
		Env: append(l.tr.params(), sandbox.DefaultEnv...), Dir: sandbox.Workspace, User: sandbox.DefaultUser})
	if err != nil {
		l.tr.Fatalf("start the probe: %v", err)
	}
	l.process = process
	ready, ended := make(chan struct{}), make(chan struct{})
	once := sync.Once{}
	l.reading.Go(func() {
		defer close(ended)
		_, _ = process.Stream(context.Background(), func(o guest.Output) error { // ends with the sandbox
			l.mu.Lock()
			defer l.mu.Unlock()
			if len(l.output) < 1<<20 {
				l.output = append(l.output, o.Data...)
			}
			if strings.Contains("\n"+string(l.output), "\nready\n") {
				once.Do(func() { close(ready) })
			}
			return nil
		}, true)
	})
	select {
	case <-ready:
	case <-ended:
		l.tr.Fatalf("the probe ended at once: %s", l.output)
	case <-within(l.tr.T).Done():
		l.tr.Fatal("the probe is never ready")
	}
}

// shell runs a command of the suite's own in the sandbox and returns what it printed.
func (l *living) shell(script string) string {
	l.tr.Helper()
	p, err := l.Start(within(l.tr.T), guest.Start{ID: string(sandbox.NewID()), Argv: []string{"/bin/bash", "--norc", "--noprofile", "-c", script},
		Env: []string{"PATH=/usr/bin:/bin"}, Dir: "/", User: sandbox.DefaultUser})
	if err != nil {
		l.tr.Fatalf("start: %v", err)
	}
	out, _ := finish(l.tr.T, p)
	return out
}

// unpack sends entries, each with content where it is a regular file.
func (l *living) unpack(base string, content string, entries ...guest.FileInfo) error {
	i := 0
	_, err := l.Unpack(within(l.tr.T), guest.Unpack{Base: base}, func() (guest.FileInfo, io.Reader, error) {
		if i == len(entries) {
			return guest.FileInfo{}, nil, io.EOF
		}
		e := entries[i]
		i++
		if e.Type != guest.FileRegular {
			return e, nil, nil
		}
		e.Size = uint64(len(content))
		return e, strings.NewReader(content), nil
	})
	return err
}
