package attack

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"syscall"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/internal/guest/client"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// living is a sandbox in which a probe runs while the host makes its own calls.
type living struct {
	*client.Client
	tr      *trial
	box     sandbox.Box
	process *client.Process // of the probe,
	code    *engine.Run     // or in a context
	reading sync.WaitGroup

	mu     sync.Mutex // guards output
	output []byte
}

// open makes a sandbox for the trial. The caller closes it.
func (tr *trial) open() *living {
	s := completeSpec()
	s.Limits = tr.enforcedLimits().OrDefault(sandbox.DefaultLimits)
	s.AllowUnenforced = tr.waived()
	s.Metadata = map[string]string{labelTrial: tr.nonce}
	box, err := tr.newBox(s)
	if err != nil {
		tr.giveUp("create: %v", err)
	}
	l := &living{tr: tr, box: box}
	conn, err := box.Dial(tr.stepContext())
	if err == nil {
		l.Client, err = client.New(tr.stepContext(), conn, box.GuestKey())
	}
	if err != nil {
		l.close()
		tr.giveUp("reach the guest: %v", err)
	}
	return l
}

// close ends the sandbox and checks the probe's whole output.
func (l *living) close() {
	if l.tr.home != nil {
		l.endProbe()
	} else if err := l.box.Close(); err != nil {
		l.tr.fail("close: %v", err)
	}
	if l.process != nil {
		l.process.Close()
	}
	if l.Client != nil {
		_ = l.Client.Close() // its sandbox has ended already
	}
	l.reading.Wait()
	l.tr.checkBreaches(&sandbox.Result{Stdout: sandbox.Captured{Head: l.output}})
	l.tr.searchOutput(&sandbox.Result{Stdout: sandbox.Captured{Head: l.output}})
}

func (l *living) write(path string, content []byte) error {
	return l.WriteFile(l.tr.stepContext(), guest.WriteFile{Path: path, Atomic: true, MakeParent: true},
		bytes.NewReader(content))
}

func (l *living) read(path string) (string, error) {
	var b bytes.Buffer
	_, err := l.ReadFile(l.tr.stepContext(), guest.ReadFile{Path: path}, &b)
	return b.String(), err
}

// launch starts the attack's probe and returns once it has printed "ready".
func (l *living) launch() {
	ready, ended := make(chan struct{}), make(chan struct{})
	found := onLine("ready", func() { close(ready) })
	take := func(data []byte) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if len(l.output) < 1<<20 {
			l.output = append(l.output, data...)
		}
		found(data)
	}
	var follow func()
	if l.tr.home != nil {
		follow = l.launchInContext(take)
	} else {
		follow = l.launchProcess(take)
	}
	l.reading.Go(func() {
		defer close(ended)
		follow()
	})
	select {
	case <-ready:
	case <-ended:
		l.tr.giveUp("the probe ended at once: %s", l.output)
	case <-l.tr.stepContext().Done():
		l.tr.giveUp("the probe is never ready")
	}
}

// launchProcess starts the probe as a process of its own. The returned function follows its output to its end.
func (l *living) launchProcess(take func([]byte)) (follow func()) {
	language := language(l.tr.attack.Lang)
	file := "/tmp/" + language.FileName
	if err := l.write(file, l.tr.attack.source(l.tr.attack.code)); err != nil {
		l.tr.giveUp("write the probe: %v", err)
	}
	var process *client.Process
	err := error(syscall.ENOENT)
	for _, program := range language.Programs {
		if errors.Is(err, syscall.ENOENT) {
			process, err = l.Start(l.tr.stepContext(), guest.Start{ID: string(sandbox.NewID()),
				Argv: language.Argv(program, file),
				Env:  append(l.tr.params(), sandbox.DefaultEnv...), Dir: sandbox.Workspace, User: sandbox.DefaultUser})
		}
	}
	if err != nil {
		l.tr.giveUp("start the probe: %v", err)
	}
	l.process = process
	return func() {
		_, _ = process.Stream(context.Background(), func(o guest.Output) error { // ends with the sandbox
			take(o.Data)
			return nil
		}, true)
	}
}

// shell runs one of the suite's own commands in the sandbox and returns its output.
func (l *living) shell(script string) string {
	p, err := l.Start(l.tr.stepContext(), guest.Start{ID: string(sandbox.NewID()),
		Argv: []string{"/bin/bash", "--norc", "--noprofile", "-c", script},
		Env:  []string{"PATH=/usr/bin:/bin"}, Dir: "/", User: sandbox.DefaultUser})
	if err != nil {
		l.tr.giveUp("start: %v", err)
	}
	return l.tr.finish(p)
}

func (tr *trial) finish(p *client.Process) string {
	var out []byte
	_, err := p.Stream(tr.stepContext(), func(o guest.Output) error {
		if o.Stream == sandbox.Stdout {
			out = append(out, o.Data...)
		}
		return nil
	}, true)
	if err != nil {
		tr.giveUp("stream: %v", err)
	}
	return string(out)
}

// unpack sends entries, with content for regular files.
func (l *living) unpack(base string, content string, entries ...guest.FileInfo) error {
	i := 0
	_, err := l.Unpack(l.tr.stepContext(), guest.Unpack{Base: base}, func() (guest.FileInfo, io.Reader, error) {
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
