package client

import (
	"bufio"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/fumehood-dev/fumehood/internal/duplex"
)

// Conn is a connection whose halves close separately: CloseWrite closes this side's.
type Conn interface {
	net.Conn
	CloseWrite() error
}

// DialPort connects to a TCP port in a sandbox, over its own connection to the server. Each half of the connection
// closes separately. ctx only limits the dialing.
func (c *Client) DialPort(ctx context.Context, name string, port int) (Conn, error) {
	request, err := c.request(ctx, http.MethodGet, sandboxPath(name, "ports", strconv.Itoa(port)), nil)
	if err != nil {
		return nil, err
	}
	conn, err := c.connect(ctx, request.URL)
	if err != nil {
		return nil, c.unreachable(ctx, err)
	}
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	tunnel, err := c.upgrade(conn, request)
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return tunnel, nil
}

// connect opens a connection to the server.
func (c *Client) connect(ctx context.Context, to *url.URL) (Conn, error) {
	transport := c.http.Transport.(*http.Transport)
	port := to.Port()
	if port == "" {
		port = to.Scheme // dialers know http and https
	}
	conn, err := transport.DialContext(ctx, "tcp", net.JoinHostPort(to.Hostname(), port))
	if err != nil {
		return nil, err
	}
	if to.Scheme == "https" {
		conf := &tls.Config{ServerName: to.Hostname(), NextProtos: []string{"http/1.1"}}
		if own := transport.TLSClientConfig; own != nil {
			conf.RootCAs = own.RootCAs
		}
		secure := tls.Client(conn, conf)
		if err := secure.HandshakeContext(ctx); err != nil {
			conn.Close()
			return nil, err
		}
		return secure, nil
	}
	return conn.(Conn), nil // TCP or a Unix socket
}

// upgrade turns a connection to the server into one to the port.
func (c *Client) upgrade(conn Conn, request *http.Request) (Conn, error) {
	request.Header.Set("Connection", "Upgrade")
	request.Header.Set("Upgrade", "tcp")
	if err := request.Write(conn); err != nil {
		return nil, c.unreachable(request.Context(), err)
	}
	buffered := bufio.NewReader(conn)
	response, err := http.ReadResponse(buffered, request)
	if err != nil {
		return nil, c.unreachable(request.Context(), err)
	}
	if response.StatusCode != http.StatusSwitchingProtocols {
		defer response.Body.Close()
		return nil, problem(response)
	}
	return &duplex.Buffered{Conn: conn, First: buffered}, nil
}
