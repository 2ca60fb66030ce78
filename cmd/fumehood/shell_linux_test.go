package main

import (
	"io"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// TestShell: exec -it and shell have our terminal: its size, also when it changes, keys, full screens. Its mode is the
// former one afterwards, and the exit code is the program's.
func TestShell(t *testing.T) {
	isNativeReady(t)
	server := startServer(t, "--allow-unenforced", "memory")
	if code, answer := server.post(t, "/v1/sandboxes", `{"name": "w", `+weaker+`}`); code != 201 {
		t.Fatal(code, answer)
	}
	person, program := openTerminal(t)
	setSize := func(rows, cols uint16) {
		size := &unix.Winsize{Row: rows, Col: cols}
		if err := unix.IoctlSetWinsize(int(person.Fd()), unix.TIOCSWINSZ, size); err != nil {
			t.Fatal(err)
		}
	}
	setSize(31, 99)
	before, err := unix.IoctlGetTermios(int(program.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	seen := &said{}
	go io.Copy(seen, person) // ends when the test closes the terminal
	start := func(args ...string) <-chan int {
		m := testApp(t).Main
		m.Stdin, m.Stdout, m.Stderr = program, program, program
		exit := make(chan int, 1)
		go func() { exit <- m.Run(t.Context(), append(args, "--server", server.url)) }()
		return exit
	}
	keys := func(text string) {
		if _, err := person.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	exit := start("shell", "w")
	seen.wait(t, `\$ `)
	keys("stty size; echo x\x7f$((6*7))in\n")
	seen.wait(t, "31 99\r\n")
	seen.wait(t, "42in\r\n")
	setSize(20, 60)
	unix.Kill(os.Getpid(), unix.SIGWINCH) // we are not in the foreground of this terminal
	seen.forget()
	keys("sleep 0.2; stty size\n")
	seen.wait(t, "20 60\r\n")
	keys("echo star''ted; sleep 1000\n")
	seen.wait(t, "started\r\n")
	keys("\x03")
	seen.wait(t, `\^C[^$]*\$ `)
	keys("echo interrupted $?\n")
	seen.wait(t, "interrupted 130")
	keys("exit 7\n")
	if code := <-exit; code != 7 {
		t.Errorf("exit code %d", code)
	}
	if after, err := unix.IoctlGetTermios(int(program.Fd()), unix.TCGETS); err != nil || *after != *before {
		t.Errorf("the terminal has another mode (%v)", err)
	}
}
