package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/fumehood-dev/fumehood/internal/wording"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Send sends a request to /mcp of a server and returns an answer of status 2xx, whose body the caller closes. A problem
// of the server is a *sandbox.Error.
type Send func(ctx context.Context, method string, header http.Header, body io.Reader) (*http.Response, error)

const versionHeader = "Mcp-Protocol-Version"

// codeFailed is the JSON-RPC code of an error of the server or the way to it.
const codeFailed = -32000

// bridge passes messages between the stdio of a client and a server.
type bridge struct {
	send Send
	work sync.WaitGroup

	write sync.Mutex // guards out
	out   io.Writer

	renewing sync.Mutex // held while another session begins

	mu      sync.Mutex // guards all below
	session string
	version string
	first   []byte // the message that began the session
}

// Bridge passes the messages of a client on stdio to a server, until the client closes in or ctx ends. If the server
// has forgotten the session, as after a restart, it begins another one.
func Bridge(ctx context.Context, in io.Reader, out io.Writer, send Send) error {
	b := &bridge{send: send, out: out}
	ctx, cancel := context.WithCancel(ctx)
	defer b.work.Wait()
	defer cancel()
	defer b.leave(context.WithoutCancel(ctx))
	lines := bufio.NewReader(in)
	for ctx.Err() == nil {
		line, err := readLine(lines)
		if message := bytes.TrimSpace(line); len(message) > 0 {
			b.pass(ctx, message)
		}
		if errors.Is(err, io.EOF) {
			b.work.Wait()
			return nil
		}
		if err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// readLine reads a line of at most maxMessage bytes.
func readLine(in *bufio.Reader) (line []byte, err error) {
	for {
		piece, err := in.ReadSlice('\n')
		if line = append(line, piece...); len(line) > maxMessage {
			return nil, tooLarge(maxMessage)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

// head is the part of a message that a bridge reads.
type head struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
}

// pass sends a message and passes the answer on. Messages overtake each other, except the one that begins the session.
func (b *bridge) pass(ctx context.Context, message []byte) {
	var h head
	_ = json.Unmarshal(message, &h) // the server refuses what is not JSON
	if h.Method == "initialize" {
		b.mu.Lock()
		b.first = message
		b.mu.Unlock()
		b.report(h, b.post(ctx, message, b.forward))
		return
	}
	b.work.Go(func() {
		used := b.current()
		err := b.post(ctx, message, b.forward)
		if sandbox.KindOf(err) == sandbox.NotFound && b.renew(ctx, used) == nil {
			err = b.post(ctx, message, b.forward)
		}
		b.report(h, err)
	})
}

func (b *bridge) current() (session string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.session
}

// renew begins another session in place of one that the server has forgotten, unless another message has done so.
func (b *bridge) renew(ctx context.Context, used string) error {
	b.renewing.Lock()
	defer b.renewing.Unlock()
	b.mu.Lock()
	first, done := b.first, b.session != used
	if !done {
		b.session = ""
	}
	b.mu.Unlock()
	if done || first == nil {
		return nil
	}
	drop := func([]byte) error { return nil }
	if err := b.post(ctx, first, drop); err != nil {
		return err
	}
	return b.post(ctx, []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`), drop)
}

// post sends a message, and hands each message of the answer to take.
func (b *bridge) post(ctx context.Context, message []byte, take func([]byte) error) error {
	h := http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
	b.mu.Lock()
	if b.session != "" {
		h.Set(sessionHeader, b.session)
		h.Set(versionHeader, b.version)
	}
	b.mu.Unlock()
	response, err := b.send(ctx, http.MethodPost, h, bytes.NewReader(message))
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if id := response.Header.Get(sessionHeader); id != "" {
		take = b.begun(id, take)
	}
	if strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream") {
		return eachEvent(response.Body, take)
	}
	text, err := io.ReadAll(response.Body)
	if err != nil || len(bytes.TrimSpace(text)) == 0 {
		return err
	}
	return take(text)
}

// begun notes a new session, with the version that its first message names, before it passes that on.
func (b *bridge) begun(id string, take func([]byte) error) func([]byte) error {
	return func(message []byte) error {
		var m struct {
			Result struct {
				Version string `json:"protocolVersion"`
			} `json:"result"`
		}
		if json.Unmarshal(message, &m) == nil && m.Result.Version != "" {
			b.mu.Lock()
			b.session, b.version = id, m.Result.Version
			b.mu.Unlock()
		}
		return take(message)
	}
}

// eachEvent hands the data of each event to take (HTML Living Standard, section 9.2). Each is in one line here.
func eachEvent(in io.Reader, take func([]byte) error) error {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if data, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			if err := take(data); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// forward writes a message to the client.
func (b *bridge) forward(message []byte) error {
	b.write.Lock()
	defer b.write.Unlock()
	_, err := b.out.Write(append(bytes.TrimSpace(message), '\n'))
	return err
}

// report answers a call that failed.
func (b *bridge) report(h head, err error) {
	if err == nil || len(h.ID) == 0 {
		return
	}
	text := wording.Tool.Text(err)
	if fix := wording.Tool.Fix(err); fix != "" {
		text += "; " + fix
	}
	answer, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": h.ID,
		"error": map[string]any{"code": codeFailed, "message": text}})
	if err == nil {
		_ = b.forward(answer) // the client is gone
	}
}

// leave ends the session.
func (b *bridge) leave(ctx context.Context) {
	b.mu.Lock()
	session, version := b.session, b.version
	b.mu.Unlock()
	if session == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, leaveTimeout)
	defer cancel()
	h := http.Header{sessionHeader: {session}, versionHeader: {version}}
	if response, err := b.send(ctx, http.MethodDelete, h, nil); err == nil {
		response.Body.Close()
	}
}
