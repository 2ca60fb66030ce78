package shared

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// The server is not trusted with this process: a reply is one line, or one value of a bounded length. Of RESP2 that is all that our commands
// are answered with; arrays, which nest, are not among it.

// maxLine bounds a line of a reply.
const maxLine = 4096 // bytes

var errReply = errors.New("the server's reply is not one to this command")

// refusal is an error in the server's words.
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

// readReply reads a simple string, a number as its digits, or a bulk string of at most that many bytes; nil is none.
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
