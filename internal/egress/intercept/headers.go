package intercept

import (
	"encoding/base64"
	"net/http"
	"slices"
	"strings"

	"github.com/fumehood-dev/fumehood/internal/egress/rules"
)

// maxInserted is how many values one request may carry. Real requests carry a few. The bound does not depend on the
// length of values, which the code should not learn.
const maxInserted = 16

// insertion is what happened to the placeholders in the headers of one request. Its lists have names of secrets.
type insertion struct {
	inserted  []string
	misplaced []string // those that this host or this header does not receive
	count     int      // of the values; above maxInserted, the request must not be sent
}

// insertSecrets replaces the placeholders in the headers of a request to a canonical name by the values that this name
// may receive in these headers.
func insertSecrets(secrets []rules.Secret, name string, port uint16, h http.Header) (done insertion) {
	for header, values := range h {
		for i, value := range values {
			values[i] = replacePlaceholders(secrets, value, func(s *rules.Secret) string {
				if !s.MayGoTo(name, port) || !s.MayGoIn(header) {
					done.misplaced = addName(done.misplaced, s.Name)
					return s.Placeholder
				}
				if done.count++; done.count > maxInserted {
					return s.Placeholder
				}
				done.inserted = addName(done.inserted, s.Name)
				return s.Value
			})
		}
	}
	slices.Sort(done.inserted)
	slices.Sort(done.misplaced)
	return done
}

// Misplaced returns the names of the secrets whose placeholders are in these values of headers.
func Misplaced(secrets []rules.Secret, values []string) (names []string) {
	for _, value := range values {
		replacePlaceholders(secrets, value, func(s *rules.Secret) string {
			names = addName(names, s.Name)
			return s.Placeholder
		})
	}
	return names
}

// maxNames is how many names of secrets an attempt keeps in a list: the log keeps a thousand attempts.
const maxNames = maxInserted

func addName(names []string, name string) []string {
	if len(names) == maxNames || slices.Contains(names, name) {
		return names
	}
	return append(names, name)
}

// replacePlaceholders replaces the placeholders in the value of a header, or in the user and password of the scheme
// Basic (RFC 7617).
func replacePlaceholders(secrets []rules.Secret, value string, by func(*rules.Secret) string) string {
	if len(value) < rules.MinValue { // no placeholder is shorter, and a head may have thousands of fields
		return value
	}
	if text, some := replaceIn(secrets, value, by); some {
		return text
	}
	scheme, credentials, _ := strings.Cut(value, " ")
	if !strings.EqualFold(scheme, "Basic") {
		return value
	}
	pair, err := base64.StdEncoding.DecodeString(strings.TrimSpace(credentials))
	if err != nil {
		return value
	}
	if text, some := replaceIn(secrets, string(pair), by); some {
		return scheme + " " + base64.StdEncoding.EncodeToString([]byte(text))
	}
	return value
}

// replaceIn replaces the placeholders in a text, and reports whether there are some. Its time is that of one search for
// each secret, and of the replacements.
func replaceIn(secrets []rules.Secret, text string, by func(*rules.Secret) string) (_ string, some bool) {
	next := make([]int, len(secrets)) // where the placeholder of each begins next; -1 is nowhere
	for i := range secrets {
		next[i] = strings.Index(text, secrets[i].Placeholder)
	}
	var out strings.Builder
	for at := 0; ; {
		first := -1
		for i, begin := range next {
			if begin >= 0 && begin < at { // it overlapped another
				begin = -1
				if j := strings.Index(text[at:], secrets[i].Placeholder); j >= 0 {
					begin = at + j
				}
				next[i] = begin
			}
			if begin >= 0 && (first < 0 || begin < next[first]) {
				first = i
			}
		}
		if first < 0 {
			out.WriteString(text[at:])
			return out.String(), some
		}
		some = true
		out.WriteString(text[at:next[first]])
		out.WriteString(by(&secrets[first]))
		at = next[first] + len(secrets[first].Placeholder)
		next[first] = at - 1 // search again
	}
}
