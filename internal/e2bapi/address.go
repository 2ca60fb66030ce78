package e2bapi

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Headers by which a client names a sandbox and one of its services.
const (
	headerSandbox = "E2b-Sandbox-Id"
	headerPort    = "E2b-Sandbox-Port"
)

// Ports that stand for services.
const (
	portEnvd = 49983
	portCode = 49999
)

// Labels of hosts below the domain that are not of a port.
const (
	labelAPI     = "api"
	labelSandbox = "sandbox" // of any sandbox, which the headers name
)

// address is the sandbox and the port that a request names.
type address struct {
	id     sandbox.ID
	port   int
	byHost bool // the Host header names them, so the origin is of this port alone
	broken bool // the request names something, but not both
}

// addressOf returns the address of a request by its host, <port>-<id>.<domain>, or by its headers. ok is false for a
// request to the control plane.
func (f *face) addressOf(r *http.Request) (a address, ok bool) {
	switch label := f.Label(r); label {
	case "", labelSandbox:
	case labelAPI:
		return a, false
	default:
		port, id, _ := strings.Cut(label, "-")
		return newAddress(port, id, true), true
	}
	id, port := r.Header.Get(headerSandbox), r.Header.Get(headerPort)
	if id == "" && port == "" && f.Label(r) != labelSandbox {
		return a, false
	}
	return newAddress(port, id, false), true
}

// newAddress parses the parts of an address. Old SDKs send more after a dash of the id.
func newAddress(port, id string, byHost bool) address {
	id, _, _ = strings.Cut(id, "-")
	n, err := strconv.Atoi(port)
	parsed, badID := sandbox.ParseID(id)
	if err != nil || n < 1 || n > 65535 || badID != nil {
		return address{byHost: byHost, broken: true}
	}
	return address{id: parsed, port: n, byHost: byHost}
}

// addressed matches requests with an address that fits.
func (f *face) addressed(fits func(address) bool) func(*http.Request) bool {
	return func(r *http.Request) bool {
		a, ok := f.addressOf(r)
		return ok && fits(a)
	}
}

// badAddress answers a request without a whole address.
func badAddress(w *httpd.Response, _ *http.Request) error {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(http.StatusBadRequest)
	_, _ = w.Write([]byte("Invalid sandbox ID, port or host: send " + headerSandbox + " and " + headerPort + "\n"))
	return nil
}
