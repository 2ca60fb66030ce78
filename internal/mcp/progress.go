package mcp

import (
	"strings"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/fumehood-dev/fumehood/internal/answer"
	"github.com/fumehood-dev/fumehood/sandbox"
)

const (
	progressEvery = 500 * time.Millisecond // at most one notification in this time, and only of new output
	progressBeat  = 5 * time.Second        // but one in this time, as clients end calls that are silent
	maxProgress   = 2 << 10                // bytes of the latest output in one notification
)

// progress reports the latest output of a call, if its client requests progress.
type progress struct {
	call  *call
	token any
	began time.Time

	mu     sync.Mutex // guards all below
	latest []byte
	fresh  bool

	stop chan struct{}
	work sync.WaitGroup
}

func (c *call) progress() *progress {
	p := &progress{call: c, token: c.request.Params.GetProgressToken(), began: time.Now(), stop: make(chan struct{})}
	if p.token != nil {
		p.work.Go(p.notify)
	}
	return p
}

// take receives output.
func (p *progress) take(_ sandbox.Stream, data []byte) {
	if p.token == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.latest = append(p.latest, data[max(0, len(data)-maxProgress):]...)
	p.latest = append(p.latest[:0], p.latest[max(0, len(p.latest)-maxProgress):]...)
	p.fresh = true
}

// step receives a step before the start, and reports it like output.
func (p *progress) step(line string) {
	if line != "" {
		p.take(sandbox.Stderr, []byte(line+"\n"))
	}
}

// notify sends notifications until close. A client that cannot take one gets the result, or nothing.
func (p *progress) notify() {
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	last := p.began
	for {
		select {
		case <-p.stop:
			return
		case <-p.call.ctx.Done():
			return
		case now := <-tick.C:
			p.mu.Lock()
			fresh, text := p.fresh, answer.Screen(strings.ToValidUTF8(string(p.latest), ""))
			p.fresh = false
			p.mu.Unlock()
			if !fresh && now.Sub(last) < progressBeat {
				continue
			}
			last = now
			if p.call.request.Session.NotifyProgress(p.call.ctx, &sdk.ProgressNotificationParams{ProgressToken: p.token,
				Progress: now.Sub(p.began).Seconds(), Message: text}) != nil {
				return
			}
		}
	}
}

// close ends the notifications. The result comes after the last one.
func (p *progress) close() {
	close(p.stop)
	p.work.Wait()
}
