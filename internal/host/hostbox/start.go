package hostbox

import (
	"encoding/json"
	"strconv"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// Labels of an image with the command that its sandboxes start with: a JSON list of words, and a port or such a list.
const (
	startLabel = "dev.fumehood.start"
	readyLabel = "dev.fumehood.ready"
)

const maxStart = 256 << 10 // bytes of a label

// StartLabels adds the labels of a start command to those of an image; nil has none.
func StartLabels(labels map[string]string, s *sandbox.Start) error {
	if s == nil {
		return nil
	}
	text, err := json.Marshal(s.Command)
	labels[startLabel] = string(text)
	if s.Port != 0 {
		labels[readyLabel] = strconv.Itoa(int(s.Port))
	} else if s.Ready != nil && err == nil {
		text, err = json.Marshal(s.Ready)
		labels[readyLabel] = string(text)
	}
	return err
}

// StartOf returns the start command in the labels of an image, or nil. It returns Invalid for others; they may be
// hostile.
func StartOf(labels map[string]string) (*sandbox.Start, error) {
	command, ready := labels[startLabel], labels[readyLabel]
	if command == "" {
		return nil, nil
	}
	s := &sandbox.Start{}
	var err error
	if port, notPort := strconv.ParseUint(ready, 10, 16); notPort == nil && port > 0 {
		s.Port = uint16(port)
	} else if ready != "" {
		err = json.Unmarshal([]byte(ready), &s.Ready)
	}
	if err == nil {
		err = json.Unmarshal([]byte(command), &s.Command)
	}
	if err != nil || len(s.Command) == 0 || len(command) > maxStart || len(ready) > maxStart {
		return nil, sandbox.Invalidf("image", "its labels %s and %s are not those of a start command", startLabel,
			readyLabel)
	}
	return s, nil
}
