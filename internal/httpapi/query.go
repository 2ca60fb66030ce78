package httpapi

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/internal/nearest"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// strict refuses unknown parameters of a query: as in a body, a field that is not understood must not be ignored.
func strict(params []api.Param, h handler) handler {
	var known []string
	for _, p := range params {
		if !p.Header {
			known = append(known, p.Name)
		}
	}
	return func(w *httpd.Response, r *http.Request) error {
		values, err := url.ParseQuery(r.URL.RawQuery)
		if err != nil {
			return sandbox.Invalidf("query", "is not of the form NAME=VALUE&...")
		}
		for name, given := range values {
			i := slices.IndexFunc(params, func(p api.Param) bool { return p.Name == name && !p.Header })
			switch {
			case i < 0:
				e := sandbox.Invalidf("query", "unknown parameter %s", strconv.Quote(brief(name)))
				if near := nearest.Name(name, known); near != "" {
					e.Fix = "did you mean " + near + "?"
				}
				return e
			case len(given) > 1 && !params[i].List:
				return sandbox.Invalidf(name, "is there %d times", len(given))
			}
			for _, value := range given {
				if enum := params[i].Enum; enum != nil && !slices.Contains(enum, value) {
					return sandbox.Invalidf(name, "%.40q is not one of %s", value, strings.Join(enum, ", "))
				}
			}
		}
		return h(w, r)
	}
}

// query reads parameters. It keeps the first error.
type query struct {
	r   *http.Request
	err error
}

func (q *query) all(name string) []string { return q.r.URL.Query()[name] }

func (q *query) text(name string) string { return q.r.URL.Query().Get(name) }

func (q *query) truth(name string) bool { return q.text(name) == "1" || q.text(name) == "true" }

// metadata reads the pairs that the listed things must have.
func (q *query) metadata() (map[string]string, error) {
	wanted := map[string]string{}
	for _, text := range q.all("metadata") {
		name, value, found := strings.Cut(text, ":")
		if !found {
			return nil, sandbox.Invalidf("metadata", "%.40q is not NAME:VALUE", text)
		}
		wanted[name] = value
	}
	return wanted, nil
}

// includes reports whether metadata has all wanted pairs.
func includes(metadata, wanted map[string]string) bool {
	for name, value := range wanted {
		if has, ok := metadata[name]; !ok || has != value {
			return false
		}
	}
	return true
}

// number reads a number within bounds, or absent.
func (q *query) number(name string, absent, least, most int) int {
	if len(q.all(name)) == 0 {
		return absent
	}
	n, err := strconv.Atoi(q.text(name))
	if err != nil || n < least || n > most {
		if q.err == nil {
			q.err = sandbox.Invalidf(name, "%.40q is not a number from %d to %d", q.text(name), least, most)
		}
		return absent
	}
	return n
}
