package intercept

import (
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fumehood-dev/fumehood/internal/egress/sniff"
)

type halfConn struct{ net.Conn }

func (halfConn) CloseWrite() error { return nil }

// TestAnswerHeadTime: a server may wait before its answer, but not within the head. The body may take any time.
func TestAnswerHeadTime(t *testing.T) { synctest.Test(t, testAnswerHeadTime) }

func testAnswerHeadTime(t *testing.T) {
	for sent, slow := range map[string]bool{
		"":                                    false,
		"HTTP/1.1 200 OK\r\nX: y\r\n":         true,
		"HTTP/1.1 103 Early Hints\r\n\r\n":    true,
		"HTTP/1.1 200 OK\r\nX: y\r\n\r\nbody": false,
		"\r\nHTTP/1.1 200 OK\nX: y\n\n":       false,
	} {
		near, far := net.Pipe()
		c := &answerHead{Conn: halfConn{near}}
		go func() {
			_, _ = io.WriteString(far, sent)
			time.AfterFunc(4*sniff.HeadTimeout, func() { far.Close() })
		}()
		_, err := io.ReadAll(c)
		if errors.Is(c.refusal(), tooSlowHead) != slow {
			t.Errorf("%q: %v, %v", sent, err, c.refusal())
		}
		c.Close()
	}
}
