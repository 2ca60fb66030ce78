package egress

import (
	"bytes"
	"errors"
	"strings"
)

const maxHead = 32 << 10 // bytes of one HTTP head; servers take 8 to 32 KiB

// request is the head of an HTTP/1 request.
type request struct {
	method, target string
	host           string // of the target if that has one, else of the Host header; "" where there is none
	upgrade        string // the protocols offered in its place
	body           body
	fields         []field
}

// body says how the bytes after a head are framed.
type body struct {
	chunked bool
	length  int64 // -1: up to the end of the connection
}

var (
	errHead    = errors.New("a malformed HTTP request")
	errHost    = errors.New("an HTTP request without one Host")
	errBody    = errors.New("an HTTP request whose length can be read in two ways")
	errVersion = errors.New("a version of HTTP that cannot be read in passing")
	errConnect = errors.New("CONNECT hides the destination")
)

// parseRequest reads a whole head, with the empty line at its end. It refuses what two readers could read in two ways: that is how
// requests are smuggled past each other (RFC 9112, section 11.2).
func parseRequest(head []byte) (request, error) {
	first, fields, err := splitHead(head)
	if err != nil {
		return request{}, err
	}
	q := request{fields: fields}
	var version string
	method, rest, ok := strings.Cut(first, " ")
	q.method = method
	q.target, version, _ = strings.Cut(rest, " ")
	switch {
	case !ok || !isToken(q.method) || q.target == "":
		return request{}, errHead
	case version != "HTTP/1.1" && version != "HTTP/1.0":
		return request{}, errVersion
	case q.method == "CONNECT":
		return request{}, errConnect
	}
	hosts := 0
	for _, f := range fields {
		switch f.name {
		case "host":
			hosts++
			q.host = f.value
		case "upgrade":
			q.upgrade += "," + strings.ToLower(f.value)
		}
	}
	if q.body, err = framing(fields, version); err != nil {
		return request{}, err
	}
	if hosts > 1 || hosts == 0 && version == "HTTP/1.1" {
		return request{}, errHost
	}
	return q, q.setTarget()
}

// setTarget lets the host of an absolute target win (RFC 9112, section 3.2.2), and demands that Host says the same.
func (q *request) setTarget() error {
	if strings.HasPrefix(q.target, "/") || q.target == "*" && q.method == "OPTIONS" {
		return nil
	}
	scheme, rest, ok := strings.Cut(q.target, "://")
	if scheme = strings.ToLower(scheme); !ok || scheme != "http" && scheme != "https" {
		return errHead
	}
	host := rest[:indexAny(rest, "/?#")]
	if q.host != "" && !strings.EqualFold(host, q.host) {
		return errHost
	}
	q.host, q.target = host, rest[len(host):]
	return nil
}

func indexAny(s, chars string) int {
	if i := strings.IndexAny(s, chars); i >= 0 {
		return i
	}
	return len(s)
}

// hostName is the name in a Host header or an authority, canonical.
func hostName(host string) (string, error) {
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") {
		if _, err := parsePort(host[i+1:]); err != nil {
			return "", err
		}
		host = host[:i]
	}
	return canonicalName(host)
}

// field is one header field, its name in lower case.
type field struct{ name, value string }

// splitHead splits a head into its first line and its fields. Lines end with CR LF and nothing else.
func splitHead(head []byte) (first string, fields []field, err error) {
	lines := strings.Split(strings.TrimSuffix(string(head), "\r\n\r\n"), "\r\n")
	for i, line := range lines {
		for j := range len(line) {
			if c := line[j]; c < ' ' && (c != '\t' || i == 0) || c == 0x7f {
				return "", nil, errHead
			}
		}
		if i == 0 {
			continue
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok || !isToken(name) { // also a folded line, which begins with a space
			return "", nil, errHead
		}
		fields = append(fields, field{strings.ToLower(name), strings.Trim(value, " \t")})
	}
	return lines[0], fields, nil
}

// framing reads how long a body is, of a request.
func framing(fields []field, version string) (body, error) {
	lengths, codings := 0, 0
	var b body
	for _, f := range fields {
		switch f.name {
		case "content-length":
			lengths++
			n, ok := parseLength(f.value)
			if !ok {
				return body{}, errBody
			}
			b.length = n
		case "transfer-encoding":
			codings++
			if b.chunked = strings.EqualFold(f.value, "chunked"); !b.chunked {
				return body{}, errBody
			}
		}
	}
	if lengths+codings > 1 || codings > 0 && version != "HTTP/1.1" {
		return body{}, errBody
	}
	return b, nil
}

func parseLength(s string) (n int64, ok bool) {
	if s == "" || len(s) > 18 {
		return 0, false
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n = n*10 + int64(s[i]-'0')
	}
	return n, true
}

// isToken reports whether s is a token of RFC 9110, section 5.6.2.
func isToken(s string) bool {
	for i := range len(s) {
		if !isTokenByte(s[i]) {
			return false
		}
	}
	return s != ""
}

func isTokenByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}

// looksLikeRequest says whether the first bytes of a connection begin an HTTP request, in the eyes of a lenient server. It returns errMore
// while they could.
func looksLikeRequest(b []byte) (bool, error) {
	b = bytes.TrimLeft(b, "\r\n")
	line, _, whole := bytes.Cut(b, []byte("\n"))
	if whole || len(line) > maxFirst {
		return bytes.Contains(line, []byte("HTTP/")), nil
	}
	for i, c := range line {
		switch {
		case i > 0 && (c == ' ' || c == '\t' || c == '\r'):
			return false, errMore
		case !isTokenByte(c):
			return false, nil
		}
	}
	return false, errMore
}
