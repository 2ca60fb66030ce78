package shared

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// The server is not trusted: a reply is one line, or one value of a bounded length. Replies to our commands use no
// other part of RESP2, such as nested arrays.

// maxLine limits a line of a reply.
const maxLine = 4096 // bytes

var errReply = errors.New("the server sent an invalid reply")

// refusal is an error reply of the server.
type refusal string

func (r refusal) Error() string { return fmt.Sprintf("the server refuses: %.300q", string(r)) }

// exchange sends a command and reads its reply.
func exchange(out io.Writer, in *bufio.Reader, most int, command ...string) ([]byte, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "*%d\r\n", len(command))
	for _, word := range command {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(word), word)
	}
	if _, err := out.Write(b.Bytes()); err != nil {
		return nil, err
	}
	return readReply(in, most)
}

// readReply reads a simple string, the digits of a number, or a bulk string of at most that many bytes, which is nil if
// null.
func readReply(in *bufio.Reader, most int) ([]byte, error) {
	line, err := in.ReadSlice('\n')
	if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
		return nil, err
	}
	line, ended := bytes.CutSuffix(line, []byte("\r\n"))
	if !ended || len(line) == 0 {
		return nil, errReply
	}
	kind, rest := line[0], line[1:]
	switch kind {
	case '+', ':':
		return bytes.Clone(rest), nil
	case '-':
		return nil, refusal(rest)
	case '$':
		if string(rest) == "-1" {
			return nil, nil
		}
		n, err := strconv.ParseUint(string(rest), 10, 63)
		if err != nil || n > uint64(most) {
			return nil, errReply
		}
		value := make([]byte, n+2)
		if _, err := io.ReadFull(in, value); err != nil {
			return nil, err
		}
		if value, ended = bytes.CutSuffix(value, []byte("\r\n")); !ended {
			return nil, errReply
		}
		return value, nil
	}
	return nil, errReply
}
