package rules

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/fumehood-dev/fumehood/sandbox"
)

const (
	maxSecrets = 64
	maxHeaders = 16 // of one secret
	// MinValue is the fewest bytes of a value: the gate replaces a value wherever an answer repeats it.
	MinValue = 8
	// MaxValue is the most bytes of a value. Servers accept heads of 8 KiB and more.
	MaxValue = 8 << 10
	// MaxEncoded is the most bytes of a value in Base64, or escaped.
	MaxEncoded = MaxValue * 8 / 6
	portHTTPS  = 443
)

// usualHeaders may carry a value whose secret names no headers. Servers use them for credentials and, unlike others
// such as X-Goog-Meta-Note, do not store them for a later reader. docs/network.md lists them.
var usualHeaders = []string{"Authorization", "X-Api-Key", "Api-Key", "Apikey", "X-Auth-Token", "X-Access-Token",
	"X-Auth-Key", "X-Goog-Api-Key", "Ocp-Apim-Subscription-Key", "Private-Token", "Job-Token", "Deploy-Token",
	"X-Github-Token", "X-Vault-Token", "X-Consul-Token", "X-Shopify-Access-Token", "X-Subscription-Token",
	"X-Rapidapi-Key", "X-Figma-Token", "Xi-Api-Key", "Dd-Api-Key", "Dd-Application-Key", "Circle-Token"}

// AnswerForms are headers of a request by which some host sends only a part of its answer, or encodes it in a way in
// which no value can be found. Squid and older servers take Request-Range for Range, Azure X-Ms-Range. Accept-Charset
// has ASP.NET Core answer in UTF-16. Servers of gRPC and Connect may compress messages as such a header permits.
var AnswerForms = []string{"Accept-Encoding", "Accept-Charset", "Range", "If-Range", "Request-Range", "X-Ms-Range",
	"A-Im", "Grpc-Accept-Encoding", "Connect-Accept-Encoding"}

// noValue are headers that hold no value: they frame a message or name its host, or the gate sets or removes them.
var noValue = append([]string{"Host", "Connection", "Keep-Alive", "Proxy-Authorization", "Proxy-Authenticate",
	"Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Content-Length", "Content-Encoding",
	"Expect"}, AnswerForms...)

var places = []sandbox.SecretPlace{sandbox.InBody, sandbox.InQuery, sandbox.InPath}

// Secret is a secret of a policy, with the rules for where its value may go.
type Secret struct {
	sandbox.Secret
	hosts   table
	headers []string // canonical
}

// MayGoTo reports whether the value may be put into requests to a canonical name at a port.
func (s *Secret) MayGoTo(name string, port uint16) bool { return s.hosts.has(name, port) }

// MayGoIn reports whether a header of this canonical name may carry the value.
func (s *Secret) MayGoIn(header string) bool { return slices.Contains(s.headers, header) }

// Hides reports whether values are removed from the answers of a canonical name at a port: the value of some secret may
// go there, or might under an earlier policy.
func (r *Rules) Hides(name string, port uint16) bool {
	return slices.ContainsFunc(r.Hidden, func(s Secret) bool { return s.MayGoTo(name, port) })
}

// Forgets reports whether these rules do not hide a value that earlier ones hide.
func (r *Rules) Forgets(earlier *Rules) bool {
	return slices.ContainsFunc(earlier.Hidden, func(s Secret) bool {
		return s.Value != "" && !slices.ContainsFunc(r.Hidden, func(now Secret) bool { return now.Value == s.Value })
	})
}

// Withdraws reports whether a secret of earlier rules may no longer go to a canonical name at a port, or only in fewer
// headers or places.
func (r *Rules) Withdraws(earlier *Rules, name string, port uint16) bool {
	return slices.ContainsFunc(earlier.Secrets, func(s Secret) bool {
		return s.Value != "" && s.MayGoTo(name, port) && !slices.ContainsFunc(r.Secrets, func(now Secret) bool {
			return now.Name == s.Name && now.MayGoTo(name, port) && contain(now.headers, s.headers) &&
				contain(now.Places, s.Places)
		})
	})
}

// contain reports whether a list has all of another one.
func contain[T comparable](list, all []T) bool {
	return !slices.ContainsFunc(all, func(one T) bool { return !slices.Contains(list, one) })
}

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
		if err := s.setHeaders(where); err != nil {
			return err
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
	r.Hidden = r.Secrets
	return nil
}

// addFormer adds secrets of earlier policies. Their hosts are intercepted, and not allowed.
func (r *Rules) addFormer(secrets []sandbox.Secret) error {
	for i := range secrets {
		s := Secret{Secret: secrets[i]}
		for _, host := range s.Hosts {
			one, err := r.addIntercepted("network.secrets", host)
			if err != nil {
				return err // it was checked before
			}
			s.hosts.add(one)
		}
		r.Hidden = append(r.Hidden[:len(r.Hidden):len(r.Hidden)], s)
	}
	return nil
}

// setHeaders checks which headers may carry the value.
func (s *Secret) setHeaders(where string) error {
	if s.headers = usualHeaders; len(s.Headers) == 0 {
		return nil
	}
	if len(s.Headers) > maxHeaders {
		return sandbox.Invalidf(where+".headers", "%d are more than %d", len(s.Headers), maxHeaders)
	}
	s.headers = nil
	for i, name := range s.Headers {
		canonical := http.CanonicalHeaderKey(name)
		switch at := fmt.Sprintf("%s.headers[%d]", where, i); {
		case !httpguts.ValidHeaderFieldName(name) || len(name) > maxLabel:
			return sandbox.Invalidf(at, "%.80q is not the name of a header", name)
		case slices.Contains(noValue, canonical):
			return sandbox.Invalidf(at, "%s cannot carry a value; name a header for credentials", canonical)
		}
		s.headers = append(s.headers, canonical)
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
	case slices.ContainsFunc(s.Places, func(p sandbox.SecretPlace) bool { return !slices.Contains(places, p) }):
		return sandbox.Invalidf(where+".places", "%.80q: the places are %s", s.Places, places)
	case s.Name == "":
		return sandbox.Invalidf(where+".name", "is missing; name the environment variable for the placeholder")
	case len(s.Hosts) == 0:
		return sandbox.Invalidf(where+".hosts", "is missing; name the hosts that may receive %s", s.Name)
	case v == "" && s.Placeholder != "": // the server that knew the value has ended
	case len(v) < MinValue || len(v) > MaxValue:
		return sandbox.Invalidf(where+".value", "%s has %d characters; a secret has %d to %d",
			s.Name, len(v), MinValue, MaxValue)
	case longestEncoded(v) > MaxEncoded: // the gate must find it in answers, however it is encoded there
		return sandbox.Invalidf(where+".value", "%s may have %d characters where it is escaped, as those other than "+
			"letters, digits, -, _ and . count six times; a secret has at most %d", s.Name, longestEncoded(v),
			MaxEncoded)
	case !httpguts.ValidHeaderFieldValue(v) || strings.TrimSpace(v) != v:
		return sandbox.Invalidf(where+".value", "%s has a control character, or a blank at an end; "+
			"no header can hold it", s.Name)
	}
	return nil
}

// Readings returns the texts as which servers read a value in a header: itself, and with its bytes taken for Latin-1
// (RFC 9112, section 2.2), as Node, WSGI and Servlets do. A third is the value in Latin-1, as which servers may write
// it. The others are other texts if the value has characters beyond ASCII.
func Readings(value string) []string {
	var latin1 strings.Builder
	for _, c := range []byte(value) {
		latin1.WriteRune(rune(c))
	}
	list := []string{value, latin1.String()}
	var written []byte
	for _, c := range value {
		if c > 0xff {
			return slices.Compact(list)
		}
		written = append(written, byte(c))
	}
	return slices.Compact(append(list, string(written)))
}

// InBase64 returns the characters that are in the Base64 of every text with the value after a number of bytes, modulo
// 3. whole reports whether they have all bits at the end of the value.
func InBase64(alphabet *base64.Encoding, before int, value string) (text string, whole bool) {
	bits := (before + len(value)) * 8
	text = alphabet.EncodeToString([]byte("..."[:before] + value))
	return text[(before*8+5)/6 : bits/6], bits%6 == 0
}

// longestEncoded returns the most characters of a value as servers read it, and of its Base64, where they are escaped.
func longestEncoded(value string) (n int) {
	n = mostEscaped(value)
	for _, read := range Readings(value) {
		for before := range 3 {
			text, _ := InBase64(base64.RawStdEncoding, before, read)
			n = max(n, mostEscaped(text))
		}
	}
	return n
}

// mostEscaped returns the most characters of a value in JSON, a form or a URL: six for a byte, as \u0026 or as the two
// of a character of Latin-1 (%C3%A9), but one for those that few encoders escape.
func mostEscaped(v string) (n int) {
	for _, c := range []byte(v) {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-_.", c) >= 0 {
			n++
		} else {
			n += 6
		}
	}
	return n
}

// addIntercepted adds a rule for names whose TLS ends in the gate. Without ports it is for port 443.
func (r *Rules) addIntercepted(where, entry string) (rule, error) {
	one, err := parseAt(where, entry)
	if err == nil && one.name == "" {
		err = sandbox.Invalidf(where, "%.80q is not a name, and only names have certificates", entry)
	}
	if err == nil && one.name == HostName {
		err = sandbox.Invalidf(where, "the requests to %s itself are not read", HostName)
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
	for _, names := range []map[string][]rule{r.intercept.names, r.intercept.below} {
		for _, list := range names {
			if slices.ContainsFunc(list, func(one rule) bool { return one.ports.has(port) }) {
				return true
			}
		}
	}
	return false
}
