package server

import (
	"math"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/internal/guest/wire"
)

// The largest number of executions, with the longest names, fits one message.
func TestTheLongestListIsOneMessage(t *testing.T) {
	var m guest.Processes
	for _, argv := range [][]string{{strings.Repeat("x", 1000)}, make([]string, 1000),
		strings.Split(strings.Repeat("y ", 1000), " ")} {
		one := guest.ProcessInfo{ID: strings.Repeat("i", maxID), PID: math.MinInt32, Argv: shortArgv(argv),
			Started: math.MaxInt64,
			TTY:     true, Exited: true, Stdout: math.MaxUint64, Stderr: math.MaxUint64, Channel: math.MaxUint64,
			Stdin: math.MaxUint64}
		m.Processes = m.Processes[:0]
		for range guest.MaxProcesses {
			m.Processes = append(m.Processes, one)
		}
		b := guest.Append(nil, &m)
		var back guest.Processes
		if err := guest.Parse(b, &back); len(b) > wire.MaxMessage || err != nil ||
			len(back.Processes) != guest.MaxProcesses {
			t.Errorf("%d bytes, %v", len(b), err)
		}
	}
}
