package intercept

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/fumehood-dev/fumehood/internal/egress/rules"
)

// NewPlaceholder returns the random text that a sandbox has in place of a secret's value.
func NewPlaceholder() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails
	return "fumehood_placeholder_" + hex.EncodeToString(b[:])
}

// placeholders are the secrets whose placeholders are in a request.
type placeholders struct {
	usable    []rules.Secret
	lost      []string // names of those whose values the server does not know since it restarted
	misplaced []string // names of those that are not for this host
}

// findPlaceholders looks for placeholders in the headers of a request to a canonical name.
func findPlaceholders(secrets []rules.Secret, name string, port uint16, h http.Header) (found placeholders) {
	for _, s := range secrets {
		switch in := slices.Concat(slices.Collect(maps.Values(h))...); {
		case !holds(in, s.Placeholder):
		case !s.MayGoTo(name, port):
			found.misplaced = append(found.misplaced, s.Name)
		case s.Value == "":
			found.lost = append(found.lost, s.Name)
		default:
			found.usable = append(found.usable, s)
		}
	}
	return found
}

// Misplaced returns the names of the secrets whose placeholders are in these values of headers.
func Misplaced(secrets []rules.Secret, values []string) (names []string) {
	for _, s := range secrets {
		if holds(values, s.Placeholder) {
			names = append(names, s.Name)
		}
	}
	return names
}

func holds(values []string, placeholder string) bool {
	return slices.ContainsFunc(values, func(v string) bool { return replace(v, placeholder, "") != v })
}

// swap is a text that the gate inserted, and the text that it replaced.
type swap struct{ value, placeholder string }

// insertSecrets replaces placeholders in headers by the values of secrets. The last insertion is the first swap, so that
// redacting an answer undoes them in order: credentials may hold several values.
func insertSecrets(h http.Header, secrets []rules.Secret) (swaps []swap) {
	for _, s := range secrets {
		for _, values := range h {
			for i, before := range values {
				values[i] = replace(before, s.Placeholder, s.Value)
				if values[i] == before {
					continue
				}
				swaps = append(swaps, swap{s.Value, s.Placeholder})
				if !strings.Contains(before, s.Placeholder) {
					swaps = append(swaps, swap{credentials(values[i]), credentials(before)})
				}
			}
		}
	}
	slices.Reverse(swaps)
	return swaps
}

// replace replaces a placeholder in the value of a header, or in the user and password of the scheme Basic (RFC 7617).
func replace(value, placeholder, by string) string {
	if placeholder == "" {
		return value
	}
	if strings.Contains(value, placeholder) {
		return strings.ReplaceAll(value, placeholder, by)
	}
	scheme, _, _ := strings.Cut(value, " ")
	if !strings.EqualFold(scheme, "Basic") {
		return value
	}
	plain, err := base64.StdEncoding.DecodeString(credentials(value))
	if err != nil || !strings.Contains(string(plain), placeholder) {
		return value
	}
	return scheme + " " + base64.StdEncoding.EncodeToString([]byte(strings.ReplaceAll(string(plain), placeholder, by)))
}

// credentials returns the text after the scheme of an Authorization header.
func credentials(value string) string {
	_, rest, _ := strings.Cut(value, " ")
	return strings.TrimSpace(rest)
}
