package native

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/internal/fork"
	"github.com/glovebox-dev/glovebox/sandbox"
)

// TestExplainStart: an error names the step at which a guest did not start, and no other.
func TestExplainStart(t *testing.T) {
	for _, c := range []struct {
		err  error
		kind sandbox.Kind
		says string
	}{
		{fmt.Errorf("move descriptor: %w", unix.EMFILE), sandbox.Unavailable, failSpawn + ": move descriptor"},
		{&fork.Error{Step: fork.Enter, Errno: unix.EACCES}, sandbox.Unavailable, failJoin},
		{&fork.Error{Step: fork.Execute, Errno: unix.EACCES}, sandbox.Unavailable, "execute"},
		{&fork.Error{Step: fork.Fork, Errno: unix.EAGAIN}, sandbox.Unavailable, "make namespaces"},
		{&fork.Error{Step: fork.Fork, Errno: unix.EPERM}, sandbox.Unsupported, "make namespaces"},
		{&fork.Error{Step: fork.Privileges, Errno: unix.EPERM}, sandbox.Unsupported, "make namespaces"},
		{&fork.Error{Step: fork.Fork, Errno: unix.ENOSPC}, sandbox.Unsupported, "user.max_user_namespaces"},
	} {
		err := explainStart(c.err)
		if sandbox.KindOf(err) != c.kind || !strings.Contains(err.Error()+sandbox.MendOf(err), c.says) {
			t.Errorf("%v: got %v %v", c.err, sandbox.KindOf(err), err)
		}
		if !errors.Is(err, errors.Unwrap(c.err)) {
			t.Errorf("%v: the cause is lost in %v", c.err, err)
		}
	}
}
