package httpapi

import (
	"context"
	"math"
	"net/http"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/internal/answer"
	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/sandbox"
)

func networkOf(n *api.Network) (sandbox.NetworkPolicy, error) {
	p := sandbox.NetworkPolicy{Mode: n.Mode, Allow: n.Allow, Deny: n.Deny, Inspect: n.Inspect}
	for _, s := range n.Secrets {
		p.Secrets = append(p.Secrets, sandbox.Secret{Name: s.Name, Hosts: s.Hosts, Headers: s.Headers,
			Places: s.Places, Value: s.Value})
	}
	if most := n.MaxConnections; most != nil {
		if err := sandbox.CheckConnections(*most); err != nil { // 0 must never mean the default
			return p, err
		}
		p.MaxConnections = *most
	}
	p.Mode = p.Wanted()
	return p, nil
}

// The number of attempts in an answer.
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
	s := &eventStream{out: w, reserve: func(n int64) error { return a.TryReserve(w, n) }}
	return a.streamEvents(w, r, s, func(ctx context.Context) error {
		for {
			list, err := log.Follow(ctx, after)
			if err != nil {
				return nil // its sandbox has ended, or the client left
			}
			for _, attempt := range list {
				err := s.do(false, func() { s.event(attempt.Seq, api.EventAttempt, answer.NewNetworkAttempt(attempt)) })
				if err != nil {
					return err
				}
				after = attempt.Seq
			}
		}
	})
}
