package client

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/coder/websocket"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// maxShown is the most bytes of one message of a terminal, an event of its log.
const maxShown = 17 << 20

// TerminalRequest requests a terminal. The zero value requests a shell.
type TerminalRequest struct {
	Command []string
	Dir     string
	Env     []string // NAME=VALUE
	Size    api.TerminalSize
}

// Terminal is a program with a terminal in a sandbox. Its methods are safe for concurrent use, except Follow.
type Terminal struct {
	Run  string // its id
	conn *websocket.Conn
}

// OpenTerminal starts a program with a terminal. It ends with the connection, which the caller closes. ctx only limits
// the dialing.
func (c *Client) OpenTerminal(ctx context.Context, name string, r TerminalRequest) (*Terminal, error) {
	request, err := c.request(ctx, http.MethodGet, sandboxPath(name, "terminal"), nil)
	if err != nil {
		return nil, err
	}
	query := url.Values{"command": r.Command}
	if r.Dir != "" {
		query.Set("dir", r.Dir)
	}
	if r.Size.Rows > 0 && r.Size.Columns > 0 {
		query.Set("rows", strconv.Itoa(r.Size.Rows))
		query.Set("columns", strconv.Itoa(r.Size.Columns))
	}
	request.URL.RawQuery = query.Encode()
	for _, text := range r.Env {
		request.Header.Add(api.HeaderEnv, url.PathEscape(text))
	}
	conn, response, err := websocket.Dial(ctx, request.URL.String(), &websocket.DialOptions{HTTPClient: &c.http,
		HTTPHeader: request.Header, Subprotocols: []string{api.TerminalProtocol}})
	if err != nil {
		if response != nil && response.StatusCode != http.StatusSwitchingProtocols {
			return nil, problem(response)
		}
		return nil, c.unreachable(ctx, err)
	}
	conn.SetReadLimit(maxShown)
	return &Terminal{Run: response.Header.Get(api.HeaderRun), conn: conn}, nil
}

// Input types at the terminal.
func (t *Terminal) Input(ctx context.Context, data []byte) error {
	for len(data) > 0 {
		n := min(len(data), api.MaxTerminalMessage)
		if err := t.conn.Write(ctx, websocket.MessageBinary, data[:n]); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

// Resize changes the size of the terminal.
func (t *Terminal) Resize(ctx context.Context, size api.TerminalSize) error {
	text, err := json.Marshal(size)
	if err != nil {
		return err
	}
	return t.conn.Write(ctx, websocket.MessageText, text)
}

// Follow writes the output to w until the program ends, and returns how. A problem of the server is the error.
func (t *Terminal) Follow(ctx context.Context, w io.Writer) (end api.TerminalEnd, err error) {
	for {
		kind, data, err := t.conn.Read(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return end, context.Cause(ctx)
			}
			return end, &sandbox.Error{Kind: sandbox.Unavailable, Op: "terminal", Msg: "the connection was lost",
				Err: err}
		}
		if kind == websocket.MessageBinary {
			if _, err := w.Write(data); err != nil {
				return end, err
			}
			continue
		}
		if err := json.Unmarshal(data, &end); err != nil {
			return end, &sandbox.Error{Kind: sandbox.Unavailable, Op: "terminal", Err: err}
		}
		if p := end.Problem; p != nil {
			return end, problemError(*p, 0)
		}
		return end, nil
	}
}

// Close ends the connection, and with it the program.
func (t *Terminal) Close() { _ = t.conn.CloseNow() } // an error means that it has ended
