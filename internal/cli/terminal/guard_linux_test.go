package terminal

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// guarded is the argument of a process that makes its terminal raw under a guard.
const guarded = "guarded"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == GuardCommand {
		if err := RunGuard(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if len(os.Args) > 1 && os.Args[1] == guarded {
		runGuarded()
		return
	}
	os.Exit(m.Run())
}

// runGuarded says when the terminal is raw. It restores the terminal after a line of its descriptor 3.
func runGuarded() {
	end, err := Guard(os.Args[0], os.Stdin)
	if err == nil {
		var restore func()
		if restore, err = Raw(os.Stdin, os.Stdin); err == nil {
			fmt.Println("raw")
			_, _ = bufio.NewReader(os.NewFile(3, "end")).ReadString('\n')
			restore()
			end()
			return
		}
	}
	fmt.Println(err)
}

// TestGuard: the terminal has its former mode after a kill -9, and after an end in order.
func TestGuard(t *testing.T) {
	for _, kill := range []bool{true, false} {
		person, program := openPair(t)
		before := modeOf(t, program)
		ends, end, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(os.Args[0], guarded)
		cmd.Stdin, cmd.ExtraFiles = program, []*os.File{ends}
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(out).ReadString('\n'); line != "raw\n" {
			t.Fatal(line, err)
		}
		if modeOf(t, program) == before {
			t.Error("the terminal is not raw")
		}
		if kill {
			err = cmd.Process.Kill()
		} else {
			_, err = end.WriteString("\n")
		}
		if err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // it was killed
		for deadline := time.Now().Add(time.Minute); modeOf(t, program) != before; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("kill %v: the terminal stays raw", kill)
			}
		}
		for _, f := range []*os.File{person, program, ends, end} {
			f.Close()
		}
	}
}

func modeOf(t *testing.T, f *os.File) unix.Termios {
	mode, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	return *mode
}

// openPair returns the two ends of a pseudo-terminal (pty(7)).
func openPair(t *testing.T) (person, program *os.File) {
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(int(person.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(person.Fd()), unix.TIOCGPTN)
	if err == nil {
		program, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	return person, program
}
