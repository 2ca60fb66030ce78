package rules

import (
	"errors"
	"net/netip"
	"strings"

	"golang.org/x/net/idna"
)

const (
	// MaxName is the most characters of a name (RFC 1035).
	MaxName  = 253
	maxLabel = 63
)

var errNameLength = errors.New("it has no characters, or more than 253")

// lookup maps a name in any script to the ASCII form that resolvers accept, by UTS 46 without transitional mappings.
var lookup = idna.New(idna.MapForLookup(), idna.BidiRule(), idna.Transitional(false), idna.StrictDomainName(false))

// CanonicalName returns the form in which names are compared: lower case, ASCII, no dot at the end. It refuses names
// that resolvers may read as addresses, such as "127.1", "0x7f000001" and "2130706433".
func CanonicalName(s string) (string, error) {
	s = strings.TrimSuffix(s, ".")
	if len(s) > maxRule { // the time of lookup grows with the square of the length
		return "", errNameLength
	}
	if !isASCII(s) {
		mapped, err := lookup.ToASCII(s)
		if err != nil {
			return "", errors.New("it cannot be written as an international domain name")
		}
		s = strings.TrimSuffix(mapped, ".")
	}
	if s == "" || len(s) > MaxName {
		return "", errNameLength
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
		return "", errors.New("it reads as an address; an IPv4 address has four decimal numbers without leading zeros")
	}
	return s, nil
}

func checkLabel(label string) error {
	switch {
	case label == "" || len(label) > maxLabel:
		return errors.New("a part between dots has no characters, or more than 63")
	case label[0] == '-' || label[len(label)-1] == '-':
		return errors.New("a part between dots begins or ends with a hyphen")
	}
	for i := range len(label) {
		switch c := label[i]; {
		// RFC 2181 allows "_"; object stores use it
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '-', c == '_':
		default:
			return errors.New("it has characters other than letters, digits, hyphens and dots")
		}
	}
	if strings.HasPrefix(label, "xn--") {
		if _, err := lookup.ToUnicode(label); err != nil {
			return errors.New("a part between dots is no valid Punycode")
		}
	}
	return nil
}

// isNumber reports whether resolvers may read a name with this last label as an IPv4 address (WHATWG URL, "ends in a
// number").
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

// IsAddress reports whether a Host header or an authority is an address, with or without a port.
func IsAddress(host string) bool {
	_, err := netip.ParseAddrPort(host)
	if err != nil {
		_, err = netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"))
	}
	return err == nil
}

// Authority returns the canonical name and the port of a Host header or an authority, which are ASCII (RFC 3986,
// section 3.2.2). The port is 0 if it has none.
func Authority(host string) (name string, port uint16, err error) {
	if !isASCII(host) {
		return "", 0, errors.New("it has characters other than ASCII")
	}
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") {
		if port, err = ParsePort(host[i+1:]); err != nil {
			return "", 0, err
		}
		host = host[:i]
	}
	name, err = CanonicalName(host)
	return name, port, err
}
