package sniff

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// Request is the head of an HTTP/1 request.
type Request struct {
	Method, Target string
	Host           string // of the target if that has one, else of the Host header; "" if neither exists
	Upgrade        string // the protocols offered in its place
	Body           Body
	Values         []string // of all header fields
}

// Body is the framing of the bytes after a head.
type Body struct {
	chunked bool
	Length  int64 // -1: up to the end of the connection
}

// field is one header field, its name in lower case.
type field struct{ name, value string }

var (
	ErrHead    = errors.New("a malformed HTTP request")
	ErrHost    = errors.New("an HTTP request without one Host")
	ErrPort    = errors.New("the request is for another port than the connection")
	ErrBody    = errors.New("an HTTP request whose length can be read in two ways")
	ErrVersion = errors.New("a version of HTTP that cannot be read in passing")
	ErrConnect = errors.New("CONNECT hides the destination")
)

// ParseRequest parses a whole head, with the empty line at its end. It refuses a head that two readers could read in
// two ways: that is how requests are smuggled past each other (RFC 9112, section 11.2).
func ParseRequest(head []byte) (Request, error) {
	first, fields, err := splitHead(head)
	if err != nil {
		return Request{}, err
	}
	var q Request
	var version string
	method, rest, ok := strings.Cut(first, " ")
	q.Method = method
	q.Target, version, _ = strings.Cut(rest, " ")
	switch {
	case !ok || !httpguts.ValidHeaderFieldName(q.Method) || q.Target == "":
		return Request{}, ErrHead
	case version != "HTTP/1.1" && version != "HTTP/1.0":
		return Request{}, ErrVersion
	case q.Method == "CONNECT":
		return Request{}, ErrConnect
	}
	hosts := 0
	for _, f := range fields {
		q.Values = append(q.Values, f.value)
		switch f.name {
		case "host":
			hosts++
			q.Host = f.value
		case "upgrade":
			q.Upgrade += "," + strings.ToLower(f.value)
		}
	}
	if q.Body, err = framing(fields, version); err != nil {
		return Request{}, err
	}
	if hosts > 1 || hosts == 0 && version == "HTTP/1.1" {
		return Request{}, ErrHost
	}
	return q, q.splitTarget()
}

// splitTarget prefers the host of an absolute target (RFC 9112, section 3.2.2). The Host header must be the same.
func (q *Request) splitTarget() error {
	if strings.HasPrefix(q.Target, "/") || q.Target == "*" && q.Method == "OPTIONS" {
		return nil
	}
	scheme, rest, ok := strings.Cut(q.Target, "://")
	if scheme = strings.ToLower(scheme); !ok || scheme != "http" && scheme != "https" {
		return ErrHead
	}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	if q.Host != "" && !strings.EqualFold(rest[:end], q.Host) {
		return ErrHost
	}
	q.Host, q.Target = rest[:end], rest[end:]
	return nil
}

// ParseResponse parses the head of the answer to a request with this method (RFC 9112, section 6.3).
func ParseResponse(head []byte, method string) (status int, framed Body, err error) {
	first, fields, err := splitHead(head)
	if err != nil {
		return 0, Body{}, err
	}
	version, rest, _ := strings.Cut(first, " ")
	code, _, _ := strings.Cut(rest, " ")
	status, err = strconv.Atoi(code)
	switch {
	case err != nil || len(code) != 3 || !strings.HasPrefix(version, "HTTP/1.") || status < 100:
		return 0, Body{}, ErrHead
	case status == 101:
		return status, Body{Length: -1}, nil
	case status < 200 || method == "HEAD" || status == 204 || status == 304:
		return status, Body{}, nil
	}
	framed, err = framing(fields, "HTTP/1.1")
	if err == nil && !framed.chunked &&
		!slices.ContainsFunc(fields, func(f field) bool { return f.name == "content-length" }) {
		framed.Length = -1
	}
	return status, framed, err
}

// splitHead splits a head into its first line and its fields. Only CR LF ends a line.
func splitHead(head []byte) (first string, fields []field, err error) {
	lines := strings.Split(strings.TrimSuffix(string(head), "\r\n\r\n"), "\r\n")
	for i, line := range lines {
		for j := range len(line) {
			if c := line[j]; c < ' ' && (c != '\t' || i == 0) || c == 0x7f {
				return "", nil, ErrHead
			}
		}
		if i == 0 {
			continue
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok || !httpguts.ValidHeaderFieldName(name) { // also a folded line, which begins with a space
			return "", nil, ErrHead
		}
		fields = append(fields, field{strings.ToLower(name), strings.Trim(value, " \t")})
	}
	return lines[0], fields, nil
}

// framing returns the framing of the body after a head with these fields.
func framing(fields []field, version string) (Body, error) {
	lengths, codings := 0, 0
	var b Body
	for _, f := range fields {
		switch f.name {
		case "content-length":
			lengths++
			n, err := strconv.ParseUint(f.value, 10, 63)
			if err != nil || len(f.value) > 18 {
				return Body{}, ErrBody
			}
			b.Length = int64(n)
		case "transfer-encoding":
			codings++
			if b.chunked = strings.EqualFold(f.value, "chunked"); !b.chunked {
				return Body{}, ErrBody
			}
		}
	}
	if lengths+codings > 1 || codings > 0 && version != "HTTP/1.1" {
		return Body{}, ErrBody
	}
	return b, nil
}
