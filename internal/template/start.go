package template

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// maxStartLine bounds each of the two texts, in bytes: JSON makes a label of it up to six times as long, within the
// 256 KiB that are read of one.
const maxStartLine = 32 << 10

// startOf returns the start command of the image: a line for the shell of the stage, or a JSON list of words. ready is
// the number of a port, or a command like that.
func (st *state) startOf(start, ready string) (*sandbox.Start, error) {
	s := st.config.Start
	switch {
	case start == "" && ready == "":
		return s, nil
	case len(start) > maxStartLine || len(ready) > maxStartLine:
		return nil, tooLarge("its start command or its ready check is over the limit of 32KiB")
	case start != "":
		s = &sandbox.Start{Command: st.words(start)}
	case s == nil:
		return nil, sandbox.Invalidf("ready", "nothing is started: name a start command, too")
	default:
		s = &sandbox.Start{Command: s.Command}
	}
	if ready == "" {
		return s, nil
	}
	number, err := strconv.Atoi(ready)
	switch {
	case err != nil:
		s.Ready = st.words(ready)
	case number < 1 || number > 65535:
		return nil, sandbox.Invalidf("ready", "%d is not a port from 1 to 65535", number)
	default:
		s.Port = uint16(number)
	}
	return s, nil
}

// words returns the command of a line.
func (st *state) words(line string) []string {
	var list []string
	if strings.HasPrefix(line, "[") && json.Unmarshal([]byte(line), &list) == nil && len(list) > 0 {
		return list
	}
	return append(slices.Clone(st.shell), line)
}
