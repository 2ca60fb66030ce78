package httpapi

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/internal/duplex"
	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// tunnelProtocol is the value of Upgrade for a tunnel, which carries the bytes of a TCP connection.
const tunnelProtocol = "tcp"

// toPort is the handler of any request to /v1/sandboxes/{id}/ports/{port}/{path...}.
func (a *apiV1) toPort(w *httpd.Response, r *http.Request, s *engine.Sandbox) error {
	port, err := portOf(r)
	if err != nil {
		return err
	}
	return a.PassToPort(w, r, httpd.PortTarget{Sandbox: s, Port: port,
		Prefix: strings.TrimSuffix(r.URL.EscapedPath(), "/-"), Tail: httpd.Tail(r)})
}

func portOf(r *http.Request) (int, error) {
	port, err := strconv.Atoi(r.PathValue("port"))
	if err != nil || port < 1 || port > 65535 {
		return 0, sandbox.Invalidf("port", "%.20q is not a number from 1 to 65535", r.PathValue("port"))
	}
	return port, nil
}

// tunnel is GET /v1/sandboxes/{id}/ports/{port}, which switches to the bytes of a TCP connection.
func (a *apiV1) tunnel(w *httpd.Response, r *http.Request, s *engine.Sandbox) error {
	port, err := portOf(r)
	if err != nil {
		return err
	}
	upgrades := hasToken(r.Header.Values("Connection"), "upgrade")
	if !upgrades || !strings.EqualFold(r.Header.Get("Upgrade"), tunnelProtocol) {
		w.Header().Set("Upgrade", tunnelProtocol)
		return httpd.Refuse(http.StatusUpgradeRequired, sandbox.Invalid, "this path is a tunnel to the port",
			"add a slash for the root of the HTTP server there; a tunnel requires Connection: Upgrade and Upgrade: "+
				tunnelProtocol)
	}
	program, err := s.DialPort(r.Context(), port)
	if err != nil {
		return httpd.PortError(err)
	}
	defer program.Close()
	conn, _, err := w.Hijack()
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(a.Stopping(), func() { conn.Close() })()
	defer httpd.WhenGone(r, func() { program.Close() })() // which ends the other half, too
	client, ok := conn.(duplex.Conn)
	if !ok {
		return nil // no listener of ours
	}
	head := "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + tunnelProtocol + "\r\n" +
		api.HeaderPort + ": " + strconv.Itoa(port) + "\r\nX-Request-Id: " + w.ID + "\r\n\r\n"
	if _, err := conn.Write([]byte(head)); err != nil {
		return nil // the client has left
	}
	duplex.Join(client, program.(duplex.Conn))
	return nil
}

func hasToken(values []string, token string) bool {
	for _, value := range values {
		for one := range strings.SplitSeq(value, ",") {
			if strings.EqualFold(strings.TrimSpace(one), token) {
				return true
			}
		}
	}
	return false
}
