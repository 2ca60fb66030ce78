package client_test

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// leaverVariable makes the test binary a driver that leaves processes behind.
const leaverVariable = "FUMEHOOD_GUESTTEST_LEAVER"

// runAsLeaver is the second call of TestMain. Per round it prints a line, leaves a process behind that prints when a
// file appears, moves to new pipes and writes background output. Then it prints a last line and reports.
func runAsLeaver() {
	rounds, err := strconv.Atoi(os.Getenv(leaverVariable))
	if err != nil {
		return
	}
	os.Unsetenv(leaverVariable)
	for i := range rounds {
		n := strconv.Itoa(i)
		os.Stdout.WriteString("run " + n + "\n")
		left := exec.Command("/bin/sh", "-c", "until [ -e go ]; do sleep 0.01; done; echo left "+n)
		left.Stdout = os.Stdout
		exitOn(left.Start())
		_, err := unix.Write(5, []byte{guest.NewPipes})
		exitOn(err)
		answer, rights := make([]byte, 1), make([]byte, unix.CmsgSpace(2*4))
		_, size, _, _, err := unix.Recvmsg(5, answer, rights, 0)
		exitOn(err)
		if messages, _ := unix.ParseSocketControlMessage(rights[:size]); len(messages) == 1 {
			fds, err := unix.ParseUnixRights(&messages[0])
			exitOn(err)
			for i, fd := range fds {
				exitOn(unix.Dup3(fd, i+1, 0))
				unix.Close(fd)
			}
		}
		_, err = unix.Write(5, []byte(string(guest.BackgroundText)+"late "+n+"\n"))
		exitOn(err)
	}
	os.Stdout.WriteString("last\n")
	exitOn(os.WriteFile("go", nil, 0o600))
	_, err = unix.Write(4, []byte("done\n"))
	exitOn(err)
	_, err = unix.Read(3, make([]byte, 1))
	exitOn(err)
	os.Exit(0)
}

// TestBackground: what processes that a driver leaves behind write, and what it sends aside, is no output of later
// runs, also beyond the number of pipes that the guest keeps.
func TestBackground(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, rounds := range []int{3, 80} {
		g := startGuest(t, 0)
		m := guest.Start{ID: "leaver", Argv: []string{program}, Env: []string{leaverVariable + "=" +
			strconv.Itoa(rounds),
			"PATH=" + os.Getenv("PATH")}, Dir: t.TempDir(), Channel: true}
		c := g.Client(t)
		p := start(t, c, m)
		feeder, err := g.Client(t).Attach(limit(t), guest.Attach{ID: m.ID})
		if err != nil {
			t.Fatal(err)
		}
		var got [5]strings.Builder
		exited, err := p.Stream(limit(t), func(o guest.Output) error {
			got[o.Stream].Write(o.Data)
			left := strings.Count(got[sandbox.Background].String()+got[sandbox.Stdout].String(), "left")
			if left == rounds && got[sandbox.Channel].Len() > 0 && feeder != nil {
				feeder, err = nil, feeder.CloseStdin(limit(t))
			}
			return err
		}, true)
		if err != nil || exited.Code != 0 {
			t.Errorf("%v, %+v", err, exited)
		}
		var runs, late string
		for i := range rounds {
			runs, late = runs+"run "+strconv.Itoa(i)+"\n", late+"late "+strconv.Itoa(i)+"\n"
		}
		stdout, background := got[sandbox.Stdout].String(), got[sandbox.Background].String()
		if own := strings.Count(stdout, "left"); own > 0 && rounds == 3 || own == rounds || own == 0 && rounds > 64 {
			t.Errorf("%d rounds: %d of the lines that come late are output", rounds, own)
		}
		if !strings.HasPrefix(stdout, runs+"last\n") || strings.Count(background, "late") != rounds ||
			!strings.HasPrefix(background, late[:len("late 0\n")]) {
			t.Errorf("%d rounds: stdout %q\nbackground %q", rounds, stdout, background)
		}
	}
}
