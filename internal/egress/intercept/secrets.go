package intercept

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"

	"github.com/fumehood-dev/fumehood/internal/egress/rules"
)

const (
	placeholderPrefix = "fumehood_placeholder_"
	placeholderRandom = 16 // bytes, in hexadecimal
)

// NewPlaceholder returns the random text that a sandbox has in place of a secret's value.
func NewPlaceholder() string {
	var b [placeholderRandom]byte
	_, _ = rand.Read(b[:]) // it never fails
	return placeholderPrefix + hex.EncodeToString(b[:])
}

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
// may receive in these headers. It reads each header once.
func insertSecrets(secrets []rules.Secret, name string, port uint16, h http.Header) (done insertion) {
	for header, values := range h {
		for i, value := range values {
			values[i] = replacePlaceholders(value, func(placeholder string) string {
				at := slices.IndexFunc(secrets, func(s rules.Secret) bool { return s.Placeholder == placeholder })
				if at < 0 {
					return placeholder
				}
				s := &secrets[at]
				if !s.MayGoTo(name, port) || !s.MayGoIn(header) {
					done.misplaced = addName(done.misplaced, s.Name)
					return placeholder
				}
				if done.count++; done.count > maxInserted {
					return placeholder
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
		replacePlaceholders(value, func(placeholder string) string {
			for _, s := range secrets {
				if s.Placeholder == placeholder {
					names = addName(names, s.Name)
				}
			}
			return placeholder
		})
	}
	return names
}

func addName(names []string, name string) []string {
	if slices.Contains(names, name) {
		return names
	}
	return append(names, name)
}

// replacePlaceholders replaces what looks like a placeholder in the value of a header, or in the user and password of
// the scheme Basic (RFC 7617).
func replacePlaceholders(value string, by func(placeholder string) string) string {
	if strings.Contains(value, placeholderPrefix) {
		return replaceIn(value, by)
	}
	scheme, credentials, _ := strings.Cut(value, " ")
	if !strings.EqualFold(scheme, "Basic") {
		return value
	}
	pair, err := base64.StdEncoding.DecodeString(strings.TrimSpace(credentials))
	if err != nil || !strings.Contains(string(pair), placeholderPrefix) {
		return value
	}
	return scheme + " " + base64.StdEncoding.EncodeToString([]byte(replaceIn(string(pair), by)))
}

// replaceIn replaces what looks like a placeholder in a text.
func replaceIn(text string, by func(placeholder string) string) string {
	var out strings.Builder
	for {
		at := strings.Index(text, placeholderPrefix)
		if at < 0 {
			out.WriteString(text)
			return out.String()
		}
		end := at + len(placeholderPrefix)
		digits := text[end:min(end+2*placeholderRandom, len(text))]
		if len(digits) == 2*placeholderRandom && strings.Trim(digits, "0123456789abcdef") == "" {
			end += len(digits)
			out.WriteString(text[:at])
			out.WriteString(by(text[at:end]))
		} else {
			out.WriteString(text[:end])
		}
		text = text[end:]
	}
}
