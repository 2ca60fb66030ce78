package e2bapi

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"syscall"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/httpd"
)

// Metadata about the ports of a sandbox. Only a sandbox that E2B's wire created has public ports.
const (
	portsName = reserved + "ports" // "public" or "private"
	maskName  = reserved + "mask"  // replaces the Host header for programs

	portsPublic  = "public"
	portsPrivate = "private"
)

// isPublic reports whether everybody may reach the ports of a sandbox. Its owner's API key must be valid.
func (f *face) isPublic(r *http.Request, s *engine.Sandbox) bool {
	return len(f.Identities(r, s.Owner())) > 0 && s.Info().Spec.Metadata[portsName] == portsPublic
}

// passPort passes a request on to a port of a sandbox. Either token opens all ports of its sandbox. A name of the
// port alone opens it to everybody if its sandbox has public ports.
func (f *face) passPort(w *httpd.Response, r *http.Request) error {
	a, _ := f.addressOf(r)
	_, key, trusted := f.tokenOwner(r, a.id, true)
	if !trusted && !a.byHost {
		return errToken
	}
	s, err := f.Engine().SandboxOfAny(r.Context(), a.id)
	if trusted {
		if err := f.Admit(w, r, key); err != nil {
			return err
		}
	} else if s != nil && err == nil && !f.isPublic(r, s) {
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte("Sandbox is secured with traffic access token. Token header '" +
			strings.ToLower(headerTraffic) + "' is missing or wrong\n"))
		return nil
	}
	if s, err = f.living(w, a.id, s, err); s == nil {
		return err
	}
	if !trusted {
		if err := f.EndWith(w, s.Owner()); err != nil {
			return err
		}
	}
	to := httpd.PortTarget{Sandbox: s, Port: a.port, Tail: httpd.Tail(r), OwnOrigin: a.byHost}
	if mask := s.Info().Spec.Metadata[maskName]; mask != "" {
		to.Host = strings.ReplaceAll(mask, "${PORT}", strconv.Itoa(a.port))
	}
	err = f.PassToPort(w, r, to)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return f.WriteStatus(w, http.StatusBadGateway, map[string]any{"sandboxId": a.id, "port": a.port,
			"code": http.StatusBadGateway, "message": "The sandbox is running but port is not open"})
	}
	return err
}
