package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/sandbox"
)

const (
	terminalRoom = 256 << 10        // bytes that a terminal may hold: a message, an event, buffers
	terminalWait = 30 * time.Second // for a client to take a message, and between pings
	terminalSize = 1 << 10          // bytes of a message with a size
	usualRows    = 24
	usualCols    = 80
)

// shell is the command of a terminal without one: Bash if the sandbox has it.
var shell = []string{"sh", "-c", "command -v bash >/dev/null && exec bash -i; exec sh -i"}

// terminalOf converts the query of a terminal. Variables come in headers: programs on the way log URLs.
func terminalOf(r *http.Request) (x engine.RunRequest, err error) {
	q := query{r: r}
	size := sizeOf(&api.TerminalSize{Rows: q.number("rows", usualRows, 1, engine.MaxTerminal),
		Columns: q.number("columns", usualCols, 1, engine.MaxTerminal)})
	if q.err != nil {
		return x, q.err
	}
	env := map[string]string{"TERM": "xterm-256color"}
	for _, text := range r.Header.Values(api.HeaderEnv) {
		plain, err := url.PathUnescape(text)
		name, value, found := strings.Cut(plain, "=")
		if err != nil || !found {
			return x, sandbox.Invalidf(api.HeaderEnv, "it is not NAME=VALUE, percent-encoded")
		}
		env[name] = value
	}
	x = engine.RunRequest{ID: sandbox.NewID(), Terminal: &size}
	x.Request.Command, x.Request.Dir = q.all("command"), q.text("dir")
	if len(x.Request.Command) == 0 {
		x.Request.Command = shell
	}
	x.Request.Env, err = envOf(env)
	x.Detach() // a user may think for long
	return x, err
}

// terminal is GET /v1/sandboxes/{id}/terminal, which switches to a WebSocket.
func (a *apiV1) terminal(w *httpd.Response, r *http.Request, s *engine.Sandbox) error {
	run, err := terminalOf(r)
	if err != nil {
		return err
	}
	if !hasToken(r.Header.Values("Connection"), "upgrade") ||
		!strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		w.Header().Set("Upgrade", "websocket")
		return httpd.Refuse(http.StatusUpgradeRequired, sandbox.Invalid, "a terminal is a WebSocket",
			"fumehood shell NAME, or the dashboard at /")
	}
	if err := a.TryReserve(w, terminalRoom); err != nil {
		return err
	}
	x, err := s.Start(r.Context(), run)
	if err != nil {
		return err
	}
	defer x.Cancel()
	w.Header().Set(api.HeaderRun, string(x.ID()))
	// The guard has checked the origin.
	conn, err := websocket.Accept(framed{w}, r, &websocket.AcceptOptions{Subprotocols: []string{api.TerminalProtocol},
		InsecureSkipVerify: true, CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		return nil // Accept has answered
	}
	conn.SetReadLimit(api.MaxTerminalMessage)
	ctx, cancel := context.WithCancel(r.Context())
	defer context.AfterFunc(a.Stopping(), cancel)()
	var work sync.WaitGroup
	defer work.Wait()
	defer func() { _ = conn.CloseNow() }()
	defer cancel()
	t := &terminalConn{Conn: conn, run: x, out: w}
	work.Go(func() {
		defer cancel()
		t.passInput(ctx)
	})
	work.Go(func() {
		defer cancel()
		t.ping(ctx)
	})
	if end := t.passOutput(ctx, func(err error) api.Problem { return a.Problem(w, err) }); end != nil {
		text, err := json.Marshal(end)
		if err == nil && t.send(ctx, websocket.MessageText, text) == nil {
			_ = conn.Close(websocket.StatusNormalClosure, "") // an error is of the client's connection
		}
	}
	return nil
}

// terminalConn is the connection between a client and the terminal of a run.
type terminalConn struct {
	*websocket.Conn
	run    *engine.Run
	out    *httpd.Response
	typing atomic.Bool // input waits for the program, and so nobody reads the client's pongs
}

func (t *terminalConn) send(ctx context.Context, kind websocket.MessageType, data []byte) error {
	ctx, cancel := context.WithTimeout(ctx, terminalWait)
	defer cancel()
	return t.Write(ctx, kind, data)
}

// passInput passes on what the client sends, until it leaves or breaks the protocol.
func (t *terminalConn) passInput(ctx context.Context) {
	for {
		kind, data, err := t.Read(ctx)
		if err != nil {
			return
		}
		t.typing.Store(true)
		t.out.Steps(httpd.InputSteps)
		switch {
		case kind == websocket.MessageBinary:
			err = t.run.Input(ctx, data, false)
		case len(data) > terminalSize: // to decode it would take longer than InputSteps
			err = sandbox.Invalidf("size", "is too long")
		default:
			var size api.TerminalSize
			if err = json.Unmarshal(data, &size); err == nil {
				err = t.run.Resize(ctx, sizeOf(&size))
			}
		}
		t.typing.Store(false)
		if sandbox.KindOf(err) == sandbox.NotFound { // the run has ended; its last message follows
			<-ctx.Done()
			return
		}
		if err != nil {
			_ = t.Close(websocket.StatusPolicyViolation, "not input or a size")
			return
		}
	}
}

// ping finds out whether the client is still there.
func (t *terminalConn) ping(ctx context.Context) {
	tick := time.NewTicker(terminalWait)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		within, cancel := context.WithTimeout(ctx, terminalWait)
		err := t.Ping(within)
		cancel()
		if err != nil && !t.typing.Load() {
			return
		}
	}
}

// passOutput passes on what the program writes, and returns its end, or nil if the connection ended first.
func (t *terminalConn) passOutput(ctx context.Context, problem func(error) api.Problem) (end *api.TerminalEnd) {
	err := t.run.Follow(ctx, 0, func(e engine.Event) error {
		if e.Ended != nil {
			end = t.endOf(e.Ended, problem)
			return nil
		}
		if e.Kind.String() != api.EventStdout {
			return nil
		}
		return t.send(ctx, websocket.MessageBinary, e.Data)
	})
	if err != nil && end == nil && ctx.Err() == nil {
		p := problem(err)
		end = &api.TerminalEnd{Problem: &p}
	}
	return end
}

func (t *terminalConn) endOf(e *engine.Ended, problem func(error) api.Problem) *api.TerminalEnd {
	if e.Failure != "" {
		p := problem(t.run.Failure())
		return &api.TerminalEnd{Problem: &p}
	}
	end := &api.TerminalEnd{Status: e.Status}
	if e.Signal != 0 {
		end.Signal = &e.Signal
	} else if e.ExitCode >= 0 {
		end.ExitCode = &e.ExitCode
	}
	return end
}
