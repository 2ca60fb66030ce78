package egress

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/fumehood-dev/fumehood/sandbox"
)

const (
	maxSecrets      = 64
	minValue        = 8       // characters: the gate replaces a value wherever an answer echoes it
	maxValue        = 8 << 10 // characters; servers take heads of 8 KiB and more
	placeholderMark = "fumehood_placeholder_"
	portHTTPS       = 443
)

// secret is one of a policy, with the rules for where its value goes.
type secret struct {
	sandbox.Secret
	hosts table
}

func newPlaceholder() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails
	return placeholderMark + hex.EncodeToString(b[:])
}

// addSecrets reads the secrets of a policy. What they are bound to is allowed.
func (r *Rules) addSecrets(p *sandbox.NetworkPolicy) error {
	if len(p.Secrets) > maxSecrets {
		return sandbox.Invalidf("network.secrets", "%d are more than %d", len(p.Secrets), maxSecrets)
	}
	taken := map[string]bool{}
	for i := range p.Secrets {
		where := fmt.Sprintf("network.secrets[%d]", i)
		s := &secret{Secret: p.Secrets[i]}
		if err := checkSecret(where, &s.Secret); err != nil {
			return err
		}
		if taken[s.Name] {
			return sandbox.Invalidf(where+".name", "there are two of the name %s", s.Name)
		}
		taken[s.Name] = true
		for j, host := range s.Hosts {
			one, err := r.opening(host, fmt.Sprintf("%s.hosts[%d]", where, j))
			if err != nil {
				return err
			}
			s.hosts.add(one)
			if r.mode == sandbox.NetworkRestricted {
				r.allow.add(one)
			}
		}
		r.secrets = append(r.secrets, s)
	}
	return nil
}

func checkSecret(where string, s *sandbox.Secret) error {
	isName := func(i int, c rune) bool {
		return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || i > 0 && c >= '0' && c <= '9'
	}
	for i, c := range s.Name {
		if !isName(i, c) || i >= maxLabel {
			return sandbox.Invalidf(where+".name", "%.40q is not a name of letters, digits and underscores, as the shell accepts it, of at most %d", s.Name, maxLabel)
		}
	}
	switch v := s.Value; {
	case s.Name == "":
		return sandbox.Invalidf(where+".name", "is missing; it is the environment variable that holds the placeholder")
	case len(s.Hosts) == 0:
		return sandbox.Invalidf(where+".hosts", "is missing; %s is put into requests to them alone", s.Name)
	case v == "" && s.Placeholder != "": // lost with its server
	case len(v) < minValue || len(v) > maxValue:
		return sandbox.Invalidf(where+".value", "%s has %d characters; a secret has from %d to %d", s.Name, len(v), minValue, maxValue)
	case !httpguts.ValidHeaderFieldValue(v) || strings.TrimSpace(v) != v:
		return sandbox.Invalidf(where+".value", "%s begins or ends with a blank, or has a control character, which no header takes", s.Name)
	}
	return nil
}

// opening adds a rule for names whose TLS ends in the gate.
func (r *Rules) opening(entry, where string) (*rule, error) {
	one, err := parseRule(entry)
	if err != nil {
		return nil, sandbox.Invalidf(where, "%.80q: %v", entry, err)
	}
	if one.name == "" {
		return nil, sandbox.Invalidf(where, "%.80q is not a name, and a certificate is for names", entry)
	}
	if one.ports.all() {
		one.ports = ports{portHTTPS, portHTTPS}
		one.text += one.ports.String()
	}
	one.where = where
	r.opens.add(&one)
	return &one, nil
}

// opensAt reports whether the TLS of connections to a name ends in the gate.
func (r *Rules) opensAt(name string, port uint16) bool { return r.opens.at(name, port) }

// opensPort reports whether it may, for some name.
func (r *Rules) opensPort(port uint16) bool {
	for _, list := range []map[string][]*rule{r.opens.names, r.opens.below} {
		for _, rules := range list {
			if slices.ContainsFunc(rules, func(one *rule) bool { return one.ports.has(port) }) {
				return true
			}
		}
	}
	return false
}

// at reports whether the table has a rule for a canonical name at a port.
func (t *table) at(name string, port uint16) bool {
	return t.byName(name, func(p ports) bool { return p.has(port) }) != nil
}

// revealed says what became of the placeholders in a request.
type revealed struct {
	used      []string // names of those whose values were put in
	lost      []string // their values are not known any more
	misplaced []string
	swaps     []swapped
}

// swapped is what the gate put in the place of something.
type swapped struct{ put, place string }

// reveal puts values in the place of placeholders in the headers of a request to a canonical name, within TLS.
func (r *Rules) reveal(name string, port uint16, h http.Header) (v revealed) {
	for _, s := range r.secrets {
		bound, found := s.hosts.at(name, port), false
		for _, values := range h {
			for i, value := range values {
				with, coded := swap(value, s.Placeholder, s.Value)
				if with == value {
					continue
				}
				if found = true; !bound || s.Value == "" {
					continue
				}
				values[i] = with
				v.swaps = append(v.swaps, swapped{s.Value, s.Placeholder})
				if coded {
					v.swaps = append(v.swaps, swapped{authentication(with), authentication(value)})
				}
			}
		}
		switch {
		case !found:
		case !bound:
			v.misplaced = append(v.misplaced, s.Name)
		case s.Value == "":
			v.lost = append(v.lost, s.Name)
		default:
			v.used = append(v.used, s.Name)
		}
	}
	return v
}

// misplaced names the secrets whose placeholders are in these fields of a request that nobody hides.
func (r *Rules) misplaced(fields []field) (names []string) {
	for _, s := range r.secrets {
		if slices.ContainsFunc(fields, func(f field) bool {
			with, _ := swap(f.value, s.Placeholder, "")
			return with != f.value
		}) {
			names = append(names, s.Name)
		}
	}
	return names
}

// swap replaces in the value of a header. coded tells of the user and password of the scheme Basic (RFC 7617).
func swap(value, placeholder, by string) (with string, coded bool) {
	if placeholder == "" {
		return value, false
	}
	if strings.Contains(value, placeholder) {
		return strings.ReplaceAll(value, placeholder, by), false
	}
	scheme, _, _ := strings.Cut(value, " ")
	if !strings.EqualFold(scheme, "Basic") {
		return value, false
	}
	plain, err := base64.StdEncoding.DecodeString(authentication(value))
	if err != nil || !strings.Contains(string(plain), placeholder) {
		return value, false
	}
	return scheme + " " + base64.StdEncoding.EncodeToString([]byte(strings.ReplaceAll(string(plain), placeholder, by))), true
}

// authentication is what follows the scheme.
func authentication(value string) string {
	_, rest, _ := strings.Cut(value, " ")
	return strings.TrimSpace(rest)
}
