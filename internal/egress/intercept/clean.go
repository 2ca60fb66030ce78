package intercept

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/fumehood-dev/fumehood/internal/egress/rules"
)

// cleaner removes values from the answers of a host of secrets. No other code does. It replaces the values of all
// secrets of the sandbox by their placeholders, whichever request carried them. It does not find values that a host
// encodes in another way than finder knows.
type cleaner struct {
	find   *finder
	*turns // a text whose parts end like many values is costly
}

// Refusals of answers that the cleaner cannot read.
const (
	errEncoded = rules.Refusal("its answer is compressed, so that the gate cannot remove the values of secrets")
	errWide    = rules.Refusal("its answer is in UTF-16, UTF-32 or another character set without ASCII, where the " +
		"gate cannot remove the values of secrets")
)

// requestPlain changes the headers of a request so that the host compresses nothing and sends no parts: a part may end
// within a value.
func requestPlain(h http.Header) {
	for _, name := range rules.AnswerForms {
		h.Del(name)
	}
	h.Set("Accept-Encoding", "identity")
}

// readable returns why the cleaner cannot read the body of an answer, or nil.
func readable(h http.Header) error {
	switch {
	case !isPlain(h):
		return errEncoded
	case slices.ContainsFunc(h["Content-Type"], isWide):
		return errWide
	}
	return nil
}

// isWide reports whether a type has a character set in which text of ASCII has other bytes (UTF-16, UTF-7, EBCDIC), or
// one that is unknown here. A host may choose it because of Accept: "text/plain;charset=IBM037".
func isWide(contentType string) bool {
	for _, m := range charset().FindAllStringSubmatch(contentType, -1) {
		if !narrow().MatchString(m[1]) {
			return true
		}
	}
	return false
}

// charset matches the character set of a type (RFC 9110, section 8.3.2), also one encoded by RFC 8187.
var charset = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)charset[*0-9]*\s*=\s*"?([^\s;,"]*)`)
})

// narrow matches the names of character sets that contain ASCII (https://encoding.spec.whatwg.org/#names-and-labels).
var narrow = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)^(?:utf-?8|unicode-1-1-utf-8|(?:us-)?ascii|binary|latin-?\d|` +
		`iso[-_]?8859[-_]?\d+|(?:windows|cp|x-cp)-?(?:125\d|874|949|936|950|932)|windows-31j|ibm866|cp866|macintosh|` +
		`x-mac-[a-z]+|koi8-?[a-z]+|gb[-_]?(?:2312|18030)|x?-?gbk|big5(?:-hkscs)?|(?:x-)?s(?:hift)?[-_]?jis|` +
		`(?:x-)?euc-?(?:jp|kr|tw|cn)|ks_c_5601-1987|tis-?620)$`)
})

// encodedBy are headers that name the coding of a body, or of the messages in one (gRPC, Connect).
var encodedBy = []string{"Content-Encoding", "Grpc-Encoding", "Connect-Content-Encoding"}

// isPlain reports whether a body is not compressed.
func isPlain(h http.Header) bool {
	return !slices.ContainsFunc(encodedBy, func(name string) bool {
		return slices.ContainsFunc(h[name], func(coding string) bool {
			return coding != "" && !strings.EqualFold(coding, "identity")
		})
	})
}

// cleaned is a transport whose answers are cleaned of the values that are known then: a host may repeat a value that
// the secret got after the request.
type cleaned struct {
	http.RoundTripper
	now func() *cleaner
}

// RoundTrip implements http.RoundTripper. It cleans answers of all statuses, also interim ones (1xx).
func (c cleaned) RoundTrip(r *http.Request) (*http.Response, error) {
	requestPlain(r.Header)
	ctx := r.Context()
	r = r.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		Got1xxResponse: func(_ int, h textproto.MIMEHeader) error {
			err := c.now().header(ctx, http.Header(h))
			if err != nil {
				clear(h) // the hook of ReverseProxy forwards h, whatever this one returns
			}
			return err
		}}))
	answer, err := c.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	answer.Status = "" // ReverseProxy forwards its text in a 101
	if answer.Header.Get("Accept-Ranges") != "" {
		answer.Header.Set("Accept-Ranges", "none")
	}
	// Of the trailer, these are announced names; Close cleans the values.
	if err := c.now().header(ctx, answer.Header, answer.Trailer); err != nil {
		answer.Body.Close()
		return nil, err
	}
	if answer.StatusCode == http.StatusSwitchingProtocols {
		return answer, nil // the body is the connection
	}
	if r.Method == http.MethodHead || answer.StatusCode == http.StatusNotModified {
		answer.Header.Del("Content-Length") // it would tell the length of a value
	} else if answer.ContentLength != 0 {
		answer.ContentLength = -1 // a placeholder has another length than its value
		answer.Header.Del("Content-Length")
		if err := readable(answer.Header); err != nil {
			answer.Body.Close()
			return nil, err
		}
	}
	answer.Body = &cleanBody{ReadCloser: answer.Body, ctx: ctx, answer: answer, now: c.now}
	return answer, nil
}

// header replaces values in headers or trailers. It removes a header whose name has one. After an error nothing is
// replaced.
func (c *cleaner) header(ctx context.Context, all ...http.Header) error {
	return c.work(ctx, func() {
		for _, h := range all {
			for name, values := range h {
				if c.text(name) != name {
					delete(h, name)
					continue
				}
				for i := range values {
					values[i] = c.text(values[i])
				}
			}
		}
	})
}

// text replaces values in a text.
func (c *cleaner) text(s string) string {
	return string((&stream{find: c.find}).write([]byte(s), true))
}

// cleanBody is the body of an answer.
type cleanBody struct {
	io.ReadCloser
	ctx    context.Context // of the request
	answer *http.Response
	now    func() *cleaner
	stream stream
	chunk  []byte
	clean  []byte // not yet read
	err    error
}

const cleanSize = 16 << 10 // bytes read at once

func (b *cleanBody) Read(p []byte) (int, error) {
	for len(b.clean) == 0 {
		if b.err != nil {
			return 0, b.err
		}
		if b.chunk == nil {
			b.chunk = make([]byte, cleanSize)
		}
		var n int
		n, b.err = b.ReadCloser.Read(b.chunk)
		end := errors.Is(b.err, io.EOF)
		if b.err == nil || end {
			now := b.now()
			if err := now.work(b.ctx, func() {
				b.stream.use(now.find)
				b.clean = b.stream.write(b.chunk[:n], end)
			}); err != nil {
				b.err = err
			}
		} // else the held bytes may be a part of a value: an answer that breaks off loses them
	}
	n := copy(p, b.clean)
	b.clean = b.clean[n:]
	return n, nil
}

// Close cleans the trailers, which net/http adds at the end of the body, also unannounced ones.
func (b *cleanBody) Close() error {
	err := b.ReadCloser.Close()
	if len(b.answer.Trailer) > 0 && b.now().header(b.ctx, b.answer.Trailer) != nil {
		clear(b.answer.Trailer)
	}
	return err
}

// stream replaces values in a text that arrives in pieces. How much it returns, and when, does not depend on values: it
// holds back the last maxHeld bytes, or those after the last byte that no value can contain if these are fewer.
type stream struct {
	find     *finder
	held     []byte
	searched int    // in held, before this position
	spans    []span // of held; they do not overlap
	begun    bool   // the placeholder of the first span has been returned
}

// use changes the finder. All that is held is searched anew.
func (s *stream) use(f *finder) {
	if s.find == f {
		return
	}
	s.find, s.searched = f, 0
	if !s.begun {
		s.spans = nil
	} else {
		s.spans = s.spans[:1]
	}
}

// maxHeld is the size of the longest pattern, with the characters before and after it, which may be escaped.
const maxHeld = maxPattern + 2*maxEscape

// write returns what is final of the text up to now.
func (s *stream) write(piece []byte, last bool) (clean []byte) {
	s.held = append(s.held, piece...)
	final := max(len(s.held)-maxHeld, 0)
	if i := lastControl(piece); i >= 0 {
		final = max(final, len(s.held)-len(piece)+i+1)
	}
	final -= trailingBackslash(s.held[:final])
	to := max(len(s.held)-maxEscape, final) // the character after a pattern may have bits of the value
	if last {
		final, to = len(s.held), len(s.held)
	}
	s.find.find(s.held, s.searched, to, s.add)
	s.searched = max(to+1, 0)
	clean = s.release(final)
	s.held = s.held[:copy(s.held, s.held[final:])]
	s.searched = max(s.searched-final, 0)
	return clean
}

// lastControl returns the position of the last byte that no value can contain (RFC 9110, section 5.5), or -1.
func lastControl(b []byte) int {
	for i := len(b) - 1; i >= 0; i-- {
		if b[i] < ' ' && b[i] != '\t' || b[i] == 0x7f {
			return i
		}
	}
	return -1
}

// add adds a span, which may overlap earlier ones.
func (s *stream) add(one span) { s.spans = join(s.spans, one) }

// release returns the text before a position, and moves the spans.
func (s *stream) release(final int) (clean []byte) {
	at, done := 0, 0
	for ; done < len(s.spans) && s.spans[done].start < final; done++ {
		one := s.spans[done]
		if clean = append(clean, s.held[at:one.start]...); !s.begun {
			clean = append(clean, one.placeholder...)
		}
		at, s.begun = min(one.end, final), one.end > final
		if s.begun {
			break
		}
	}
	clean = append(clean, s.held[at:final]...)
	s.spans = s.spans[:copy(s.spans, s.spans[done:])]
	for i := range s.spans {
		s.spans[i].start, s.spans[i].end = max(s.spans[i].start-final, 0), s.spans[i].end-final
	}
	return clean
}
