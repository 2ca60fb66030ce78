package rules

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/fumehood-dev/fumehood/sandbox"
)

const (
	maxSecrets = 64
	minValue   = 8       // characters: the gate replaces a value wherever an answer repeats it
	maxValue   = 8 << 10 // characters; servers accept heads of 8 KiB and more
	portHTTPS  = 443
)

// Secret is a secret of a policy, with the rules for where its value may go.
type Secret struct {
	sandbox.Secret
	hosts table
}

// MayGoTo reports whether the value may be put into requests to a canonical name at a port.
func (s *Secret) MayGoTo(name string, port uint16) bool { return s.hosts.has(name, port) }

// addSecrets checks secrets and adds them. It intercepts and allows their hosts.
func (r *Rules) addSecrets(secrets []sandbox.Secret) error {
	if len(secrets) > maxSecrets {
		return sandbox.Invalidf("network.secrets", "%d are more than %d", len(secrets), maxSecrets)
	}
	for i := range secrets {
		where := fmt.Sprintf("network.secrets[%d]", i)
		s := Secret{Secret: secrets[i]}
		if err := checkSecret(where, &s.Secret); err != nil {
			return err
		}
		if slices.ContainsFunc(r.Secrets, func(other Secret) bool { return other.Name == s.Name }) {
			return sandbox.Invalidf(where+".name", "two secrets have the name %s", s.Name)
		}
		for j, host := range s.Hosts {
			one, err := r.addIntercepted(fmt.Sprintf("%s.hosts[%d]", where, j), host)
			if err != nil {
				return err
			}
			s.hosts.add(one)
			if r.mode == sandbox.NetworkRestricted {
				r.allow.add(one)
			}
		}
		r.Secrets = append(r.Secrets, s)
	}
	return nil
}

func checkSecret(where string, s *sandbox.Secret) error {
	for i, c := range s.Name {
		letter := c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && !(i > 0 && c >= '0' && c <= '9') || i >= maxLabel {
			return sandbox.Invalidf(where+".name", "%.40q is not the name of an environment variable: letters, digits "+
				"and underscores, no digit first, at most %d", s.Name, maxLabel)
		}
	}
	switch v := s.Value; {
	case s.Name == "":
		return sandbox.Invalidf(where+".name", "is missing; name the environment variable for the placeholder")
	case len(s.Hosts) == 0:
		return sandbox.Invalidf(where+".hosts", "is missing; name the hosts that may receive %s", s.Name)
	case v == "" && s.Placeholder != "": // the server that knew the value has ended
	case len(v) < minValue || len(v) > maxValue:
		return sandbox.Invalidf(where+".value", "%s has %d characters; a secret has %d to %d",
			s.Name, len(v), minValue, maxValue)
	case !httpguts.ValidHeaderFieldValue(v) || strings.TrimSpace(v) != v:
		return sandbox.Invalidf(where+".value", "%s has a control character, or a blank at an end; "+
			"no header can hold it", s.Name)
	}
	return nil
}

// addIntercepted adds a rule for names whose TLS ends in the gate. Without ports it is for port 443.
func (r *Rules) addIntercepted(where, entry string) (rule, error) {
	one, err := parseAt(where, entry)
	if err == nil && one.name == "" {
		err = sandbox.Invalidf(where, "%.80q is not a name, and only names have certificates", entry)
	}
	if one.ports.all() {
		one.ports = ports{portHTTPS, portHTTPS}
	}
	r.intercept.add(one)
	return one, err
}

// Intercepts reports whether the TLS of connections to a canonical name ends in the gate.
func (r *Rules) Intercepts(name string, port uint16) bool { return r.intercept.has(name, port) }

// InterceptsPort reports whether Intercepts is true for some name at this port.
func (r *Rules) InterceptsPort(port uint16) bool {
	for _, list := range r.intercept.names {
		if slices.ContainsFunc(list, func(one rule) bool { return one.ports.has(port) }) {
			return true
		}
	}
	return false
}
