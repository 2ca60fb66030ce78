//go:build unix

package terminal

import (
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"golang.org/x/term"
)

// GuardCommand is the argument with which Guard starts the program, which then calls RunGuard.
const GuardCommand = "restore-terminal"

// Descriptors of the guard, besides the terminal as its standard input.
const (
	guardAlive = 3 // to read: ends when the guarded process dies, after a byte if it has restored the terminal itself
	guardReady = 4 // to write: a byte once the guard knows the mode of the terminal
)

// Guard starts a process that restores the terminal if this one dies without calling end, as after kill -9. program is
// the path of a program that calls RunGuard for GuardCommand.
func Guard(program string, in *os.File) (end func(), err error) {
	alive, ours, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer alive.Close()
	started, ready, err := os.Pipe()
	if err != nil {
		ours.Close()
		return nil, err
	}
	defer started.Close()
	cmd := exec.Command(program, GuardCommand)
	cmd.Stdin, cmd.Env = in, []string{}
	cmd.ExtraFiles = []*os.File{alive, ready}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // no signal of the keyboard reaches it
	err = cmd.Start()
	ready.Close()
	if err != nil {
		ours.Close()
		return nil, err
	}
	end = func() {
		_, _ = ours.Write([]byte{1})
		ours.Close()
		_ = cmd.Wait() // its end is all that matters
	}
	if _, err := io.ReadFull(started, make([]byte, 1)); err != nil {
		end()
		return nil, err
	}
	return end, nil
}

// RunGuard is the process of Guard.
func RunGuard() error {
	// It is in the background of the terminal, where SIGTTOU would stop it.
	signal.Ignore(syscall.SIGTTOU, syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM)
	state, err := term.GetState(int(os.Stdin.Fd()))
	if err != nil {
		return err
	}
	ready := os.NewFile(guardReady, "ready")
	if _, err := ready.Write([]byte{1}); err != nil {
		return err
	}
	ready.Close()
	if n, _ := os.NewFile(guardAlive, "alive").Read(make([]byte, 1)); n == 0 {
		restore(os.Stdin, os.Stdin, state)
	}
	return nil
}
