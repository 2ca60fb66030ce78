package httpapi

import (
	"context"
	"math"
	"net/http"

	"github.com/fumehood-dev/fumehood/internal/answer"
	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// NetworkIn is the network access of a sandbox.
type NetworkIn struct {
	Mode           string     `json:"mode" doc:"none: only a loopback interface; restricted: what allow lists; full: the internet, never this host, private or metadata addresses unless allow lists them. If absent, restricted where allow or secrets list anything, else none." enum:"none,restricted,full"`
	Allow          []string   `json:"allow" doc:"Names, *. and a name, addresses or prefixes, each with an optional :port or :from-to. An empty list allows nothing." max:"1000" example:"api.example.org:443"`
	Deny           []string   `json:"deny" doc:"The same; what it lists is refused whatever allow says." max:"1000"`
	Inspect        []string   `json:"inspect" doc:"Names, as in allow, whose HTTPS requests are read and logged: their TLS ends in the gate, with an authority that this sandbox alone trusts." max:"1000"`
	Secrets        []SecretIn `json:"secrets" doc:"Values for the headers of HTTPS requests to some hosts. The code sees placeholders." max:"64"`
	MaxConnections *float64   `json:"max_connections" doc:"Connections at once; 256 if absent." whole:"true" over:"0"`
}

// SecretIn is a value that the code uses and never has.
type SecretIn struct {
	Name  string   `json:"name" required:"true" doc:"The environment variable that holds the placeholder." example:"GITHUB_TOKEN"`
	Hosts []string `json:"hosts" required:"true" doc:"Names, as in allow, which they thereby join; port 443 unless one says another." example:"api.github.com"`
	Value string   `json:"value" doc:"At least 8 characters. In a PATCH, absent is the value that the sandbox has."`
}

// maxConnections is the most connections at once that a policy may name.
const maxConnections = 65536

func (n *NetworkIn) policy() (sandbox.NetworkPolicy, error) {
	p := sandbox.NetworkPolicy{Mode: sandbox.NetworkMode(n.Mode), Allow: n.Allow, Deny: n.Deny, Inspect: n.Inspect}
	for _, s := range n.Secrets {
		p.Secrets = append(p.Secrets, sandbox.Secret{Name: s.Name, Hosts: s.Hosts, Value: s.Value})
	}
	if most := n.MaxConnections; most != nil {
		if *most < 1 || *most > maxConnections {
			return p, sandbox.Invalidf("network.max_connections", "must be from 1 to %d", maxConnections)
		}
		p.MaxConnections = int(*most)
	}
	p.Mode = p.Wanted()
	return p, nil
}

// The last attempts that an answer names.
const (
	usualAttempts = 100
	mostAttempts  = 1000
)

// network is GET /v1/sandboxes/{id}/network.
func (a *apiV1) network(w *httpd.Response, r *http.Request, s *engine.Sandbox) error {
	q := query{r: r}
	last, after := q.number("last", usualAttempts, 0, mostAttempts), q.number("after", -1, 0, math.MaxInt)
	if q.err != nil {
		return q.err
	}
	policy, log, err := s.Network()
	if err != nil {
		return err
	}
	if after < 0 {
		return a.WriteJSON(w, answer.NewNetworkReport(policy, log.Summary(), log.Last(last), log.Current()))
	}
	return a.followNetwork(w, r, log, uint64(after))
}

// followNetwork sends attempts as events until the client leaves or the server stops.
func (a *apiV1) followNetwork(w *httpd.Response, r *http.Request, log sandbox.NetworkLog, after uint64) error {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // or nginx would buffer events
	w.WriteHeader(http.StatusOK)
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(a.Stopping(), cancel)()
	f := newFeed(w)
	defer f.close()
	err := f.flush()
	for err == nil {
		var list []sandbox.NetworkAttempt
		if list, err = log.Follow(ctx, after); err != nil {
			break
		}
		for _, attempt := range list {
			if err = f.event(attempt.Seq, "attempt", answer.NewNetworkAttempt(attempt)); err != nil {
				break
			}
			after = attempt.Seq
		}
	}
	if f.broken() != nil {
		a.LostClient()
	}
	return nil
}
