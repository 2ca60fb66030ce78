package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/fumehood-dev/fumehood/test/liveserver"
)

const (
	largeFile     = 15_000_000 // bytes; a request and its answer have two of them
	largeRequests = 20
	largeQuick    = 3
	largeIdle     = 15 * time.Second // until a server has returned their memory
	largeLeft     = 150 << 20
)

// large sends requests with bodies of 30 MB, gets answers of the same size, and measures the memory that the server
// keeps.
func (r *report) large(ctx context.Context, s *liveserver.Server) error {
	text := strings.Repeat("x", largeFile)
	body := (&liveserver.Request{Language: "bash", Code: "cp a c; cp b d", ReturnFiles: []string{"c", "d"},
		Files: []liveserver.File{{Path: "a", Text: text}, {Path: "b", Text: text}}}).Encode()
	n := largeRequests
	if r.Floods == 1 {
		n = largeQuick
	}
	for range n {
		a, err := s.Post(ctx, body)
		if err != nil {
			return err
		}
		if len(a.Files) != 2 || len(a.Files[1].Text) != largeFile {
			return fmt.Errorf("an answer of %s with %d files", a.Status, len(a.Files))
		}
	}
	time.Sleep(largeIdle)
	m, err := liveserver.ReadMemory(s.PID())
	if err != nil {
		return err
	}
	title := fmt.Sprintf("%d requests and answers of %d MB: server memory, MiB", n, 2*largeFile/1_000_000)
	t := newTable(r.w, title, "peak", fmt.Sprintf("%v later", largeIdle))
	t.line(mib(m.Peak), mib(m.RSS))
	t.Flush()
	r.figures.largeLeft = m.RSS
	return nil
}
