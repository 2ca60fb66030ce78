package httpapi

import (
	"net/http"
	"time"
)

// paceBytes is how much is written under one deadline: a client that takes less than this in a WriteTimeout is too slow.
const paceBytes = 64 << 10

// pacedWriter writes to a client under a deadline that moves with what the client takes, so that a large answer may take long
// while one that nobody reads ends soon.
type pacedWriter struct {
	w       http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
}

func newPacedWriter(w http.ResponseWriter, timeout time.Duration) *pacedWriter {
	return &pacedWriter{w, http.NewResponseController(w), timeout}
}

func (p *pacedWriter) Write(data []byte) (int, error) {
	done := 0
	for done < len(data) {
		p.control.SetWriteDeadline(time.Now().Add(p.timeout)) // an error means a writer without a connection, as in tests
		n, err := p.w.Write(data[done:min(len(data), done+paceBytes)])
		done += n
		if err != nil {
			return done, err
		}
	}
	return done, nil
}

// flush sends what is buffered on its way.
func (p *pacedWriter) flush() error {
	p.control.SetWriteDeadline(time.Now().Add(p.timeout))
	return p.control.Flush()
}
