package egress

import (
	"strings"

	"golang.org/x/net/idna"

	"github.com/fumehood-dev/fumehood/sandbox"
)

const (
	maxName  = 253 // characters of a name (RFC 1035)
	maxLabel = 63
)

// lookup maps what people write to what resolvers are asked, by UTS 46 without transitional mappings.
var lookup = idna.New(idna.MapForLookup(), idna.BidiRule(), idna.Transitional(false), idna.StrictDomainName(false))

// canonicalName is the one form in which names are compared: lower case, ASCII, no dot at the end. Names that could be read as addresses
// are refused, since resolvers take "127.1", "0x7f000001" and "2130706433" for one.
func canonicalName(s string) (string, error) {
	s = strings.TrimSuffix(s, ".")
	if !isASCII(s) {
		mapped, err := lookup.ToASCII(s)
		if err != nil {
			return "", badName("it cannot be written as an international domain name")
		}
		s = strings.TrimSuffix(mapped, ".")
	}
	if s == "" || len(s) > maxName {
		return "", badName("it has no characters, or more than 253")
	}
	s = strings.ToLower(s)
	last := s
	for rest, more := s, true; more; {
		last, rest, more = strings.Cut(rest, ".")
		if err := checkLabel(last); err != nil {
			return "", err
		}
	}
	if isNumber(last) {
		return "", badName("it reads as an address; an IPv4 address has four decimal numbers without leading zeros")
	}
	return s, nil
}

func checkLabel(label string) error {
	switch {
	case label == "" || len(label) > maxLabel:
		return badName("a part between dots has no characters, or more than 63")
	case label[0] == '-' || label[len(label)-1] == '-':
		return badName("a part between dots begins or ends with a hyphen")
	}
	for i := range len(label) {
		switch c := label[i]; {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '-', c == '_': // "_": RFC 2181 allows it, and object stores use it
		default:
			return badName("it has characters other than letters, digits, hyphens and dots")
		}
	}
	if strings.HasPrefix(label, "xn--") {
		if _, err := lookup.ToUnicode(label); err != nil {
			return badName("a part between dots is no valid Punycode")
		}
	}
	return nil
}

// isNumber reports whether a last label makes the whole an IPv4 address in some resolver's eyes (WHATWG URL, "ends in a number").
func isNumber(label string) bool {
	if digits, ok := strings.CutPrefix(label, "0x"); ok {
		return strings.Trim(digits, "0123456789abcdef") == ""
	}
	return strings.Trim(label, "0123456789") == ""
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

func badName(why string) error { return &sandbox.Error{Kind: sandbox.Invalid, Msg: why} }
