package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/fumehood-dev/fumehood/client"
	"github.com/fumehood-dev/fumehood/internal/cli/terminal"
	"github.com/fumehood-dev/fumehood/internal/duplex"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// maxForwarded bounds the connections that are forwarded at once; others wait. The server has its own limit.
const maxForwarded = 256

func (a *app) newPortForward() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "port-forward [FLAGS] NAME [LOCAL:]PORT",
		Short: "Connect a port of this machine to a port in a sandbox",
		Long: `Port-forward listens on 127.0.0.1 and forwards each TCP connection to a port in a living sandbox,
until it is interrupted. The program in the sandbox listens on 127.0.0.1, ::1 or all addresses. The
sandbox needs no network for that, and is not idle while a connection is open. LOCAL is the port on
this machine: PORT by default, any free port if it is 0.`,
		Example: `  fumehood exec --detach --timeout 1h agent-7 -- python3 -m http.server 8000
  fumehood port-forward agent-7 8000
  fumehood port-forward agent-7 9000:8000`,
		Args: cobra.ExactArgs(2),
	}
	return a.onServer(cmd, 1, func(ctx context.Context, c *client.Client, args []string) error {
		local, port, err := parseForward(args[1])
		if err != nil {
			return err
		}
		return a.portForward(ctx, c, &forwarding{name: args[0], local: local, port: port})
	})
}

func parseForward(text string) (local, port int, err error) {
	first, second, both := strings.Cut(text, ":")
	if !both {
		first, second = text, text
	}
	local, bad := strconv.Atoi(first)
	port, worse := strconv.Atoi(second)
	if errors.Join(bad, worse) != nil || local < 0 || local > 65535 || port < 1 || port > 65535 {
		return 0, 0, sandbox.Invalidf("port", "%.40q is not PORT or LOCAL:PORT, with numbers from 1 to 65535", text)
	}
	return local, port, nil
}

// forwarding connects a port of this machine to a port in a sandbox.
type forwarding struct {
	name        string
	local, port int

	mu   sync.Mutex // guards last
	last string     // the last warning, which is not repeated
}

// portForward forwards until ctx or the sandbox ends.
func (a *app) portForward(ctx context.Context, c *client.Client, to *forwarding) error {
	if _, err := c.Sandbox(ctx, to.name); err != nil {
		return err
	}
	listener, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(to.local)))
	if err != nil {
		return &sandbox.Error{Kind: sandbox.Unavailable, Op: "port-forward", Err: err,
			Fix: fmt.Sprintf("name another local port; 0:%d takes a free one", to.port)}
	}
	defer listener.Close()
	if err := a.printForward(listener.Addr().String(), to); err != nil {
		return err
	}
	return a.forwardAll(ctx, listener, c, to)
}

// forwardAll forwards the connections of a listener. It ends them when it returns.
func (a *app) forwardAll(ctx context.Context, listener net.Listener, c *client.Client, to *forwarding) error {
	ctx, end := context.WithCancelCause(ctx)
	var open sync.WaitGroup
	defer open.Wait()
	defer end(nil)
	defer context.AfterFunc(ctx, func() { listener.Close() })()
	room := make(chan struct{}, maxForwarded)
	for {
		select {
		case room <- struct{}{}:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		conn, err := listener.Accept()
		if err != nil {
			return cmp.Or(context.Cause(ctx), err)
		}
		open.Go(func() {
			defer func() { <-room }()
			if err := a.forward(ctx, c, conn.(*net.TCPConn), to); err != nil {
				end(err)
			}
		})
	}
}

func (a *app) printForward(local string, to *forwarding) error {
	if a.json {
		return a.printJSON(map[string]any{"local": local, "sandbox": to.name, "port": to.port})
	}
	_, err := fmt.Fprintf(a.Stdout, "forwarding %s -> %s:%d\n", local, terminal.VisibleName(to.name), to.port)
	return err
}

// forward forwards one connection until it ends, or ctx ends. It returns an error if no further connection can succeed.
func (a *app) forward(ctx context.Context, c *client.Client, conn *net.TCPConn, to *forwarding) error {
	defer conn.Close()
	inside, err := c.DialPort(ctx, to.name, to.port)
	if err != nil {
		_ = conn.SetLinger(0) // the client sees a reset
		if sandbox.KindOf(err) == sandbox.NotFound {
			return err
		}
		if ctx.Err() == nil {
			a.warnForward(to, err)
		}
		return nil
	}
	defer context.AfterFunc(ctx, func() {
		conn.Close()
		inside.Close()
	})()
	duplex.Join(conn, inside)
	return nil
}

// warnForward reports why a connection failed. It does not repeat the last warning.
func (a *app) warnForward(to *forwarding, err error) {
	text := terminal.OneLine(textOf(err))
	to.mu.Lock()
	defer to.mu.Unlock()
	if text != to.last {
		a.warn("%s", text)
	}
	to.last = text
}
