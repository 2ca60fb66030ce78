package httpapi

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/internal/nearest"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// param is one parameter of an endpoint in its query, or a header, for checks and for the OpenAPI document.
type param struct {
	name, doc string
	header    bool
	list      bool   // it may be repeated
	number    bool   // else it is text
	one       string // the allowed values, with commas between; "" is any
	example   string
}

// truth is what a parameter that is true or false may be.
const truth = "0,1,false,true"

// strict refuses a query of names that the endpoint does not have. As in a body, what is not understood must not be ignored.
func strict(params []param, h func(*httpd.Response, *http.Request) error) func(*httpd.Response, *http.Request) error {
	var known []string
	for _, p := range params {
		if !p.header {
			known = append(known, p.name)
		}
	}
	return func(w *httpd.Response, r *http.Request) error {
		values, err := url.ParseQuery(r.URL.RawQuery)
		if err != nil {
			return sandbox.Invalidf("query", "is not of the form NAME=VALUE&...")
		}
		for name, given := range values {
			i := indexOf(params, name)
			switch {
			case i < 0:
				e := sandbox.Invalidf("query", "unknown parameter %s", strconv.Quote(brief(name)))
				if near := nearest.Name(name, known); near != "" {
					e.Fix = "did you mean " + near + "?"
				}
				return e
			case len(given) > 1 && !params[i].list:
				return sandbox.Invalidf(name, "is there %d times", len(given))
			case params[i].one != "" && !strings.Contains(","+params[i].one+",", ","+given[0]+","):
				return sandbox.Invalidf(name, "%.40q is not one of %s", given[0], strings.ReplaceAll(params[i].one, ",", ", "))
			}
		}
		return h(w, r)
	}
}

func indexOf(params []param, name string) int {
	for i, p := range params {
		if p.name == name && !p.header {
			return i
		}
	}
	return -1
}

// query reads parameters. It keeps the first error.
type query struct {
	r   *http.Request
	err error
}

func (q *query) all(name string) []string { return q.r.URL.Query()[name] }

func (q *query) text(name string) string { return q.r.URL.Query().Get(name) }

func (q *query) truth(name string) bool { return q.text(name) == "1" || q.text(name) == "true" }

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
