package backendtest

import (
	"strconv"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// testChannel runs a program that prints each request, then reports it: the mark of a report counts the output before
// it.
func testChannel(t *testing.T, s *suite) {
	c := dial(t, s.create(t, spec()))
	p, err := c.Start(within(t), guest.Start{ID: string(sandbox.NewID()), Env: sandbox.DefaultEnv, Dir: "/",
		User:    sandbox.DefaultUser,
		Channel: true, Argv: []string{"bash", "-c", "exec bash -c 'while read n <&3; do echo $n; echo $n >&4; done'"}})
	if err != nil {
		t.Fatal(err)
	}
	const rounds = 300
	var lines, got strings.Builder
	for i := range rounds {
		lines.WriteString(strconv.Itoa(i) + "\n")
	}
	go func() {
		if err := p.Input(within(t), []byte(lines.String())); err != nil {
			t.Errorf("input: %v", err)
		}
		if err := p.CloseStdin(within(t)); err != nil {
			t.Errorf("close: %v", err)
		}
	}()
	exited, err := p.Stream(within(t), func(o guest.Output) error {
		if o.Stream != sandbox.Channel {
			return nil
		}
		// The program prints to stdout what it reports.
		if got.Write(o.Data); o.BeforeStdout < uint64(got.Len()) || o.BeforeStdout > uint64(lines.Len()) ||
			o.BeforeStderr != 0 {
			t.Errorf("after %d bytes of reports: marks %d and %d", got.Len(), o.BeforeStdout, o.BeforeStderr)
		}
		return nil
	}, true)
	if err != nil || got.String() != lines.String() || exited.Code != 0 || exited.Stdout != exited.Channel ||
		exited.Channel != uint64(lines.Len()) {
		t.Errorf("%d bytes of reports, %+v, %v", got.Len(), exited, err)
	}
}
