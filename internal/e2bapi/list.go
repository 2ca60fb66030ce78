package e2bapi

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/sandbox"
)

const maxPage = 100 // sandboxes of one answer

// filter selects sandboxes of a list.
type filter struct {
	metadata map[string]string
	template string    // "" is any
	after    time.Time // started at or after it
	running  bool      // no sandbox has another state
}

func filterOf(q url.Values) (f filter, err error) {
	if f.metadata, err = metadataOf(q.Get("metadata")); err != nil {
		return f, err
	}
	f.template = q.Get("template")
	if text := q.Get("startedAfter"); text != "" {
		if f.after, err = time.Parse(time.RFC3339, text); err != nil {
			return f, sandbox.Invalidf("startedAfter", "%.80q is not a time of RFC 3339", text)
		}
	}
	states := q["state"] // repeated, or one list
	f.running = len(states) == 0 || slices.Contains(strings.Split(strings.Join(states, ","), ","), "running")
	return f, nil
}

// matches reports whether the filter selects a sandbox. Its metadata is compared before.
func (f *filter) matches(i engine.Info) bool {
	return f.running && !i.Created.Before(f.after) && (f.template == "" || f.template == i.Spec.Metadata[templateName])
}

// listed is a sandbox of a list.
type listed struct {
	id      sandbox.ID
	started time.Time
}

// listSandboxes is GET /v2/sandboxes, the newest first, and GET /sandboxes.
func (f *face) listSandboxes(w *httpd.Response, r *http.Request) error {
	q := r.URL.Query()
	wanted, err := filterOf(q)
	if err != nil {
		return err
	}
	var list []listed
	for after := sandbox.ID(""); ; {
		page, more, err := f.Engine().Sandboxes(w.Key, wanted.metadata, after, 0)
		if err != nil {
			return err
		}
		for _, id := range page {
			w.Steps(1) // also of sandboxes that the answer omits
			if s := f.Engine().Living(id); s != nil {
				if i := s.Info(); wanted.matches(i) {
					list = append(list, listed{id, i.Created})
				}
			}
			after = id
		}
		if !more || len(page) == 0 {
			break
		}
	}
	order := -1 // the newest first
	if q.Get("order") == "asc" {
		order = 1
	} else {
		slices.Reverse(list)
	}
	w.Header().Set("X-Total-Running", strconv.Itoa(len(list)))
	if list, err = from(list, q.Get("nextToken"), order); err != nil {
		return err
	}
	limit := maxPage
	if text := q.Get("limit"); text != "" {
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > maxPage {
			return sandbox.Invalidf("limit", "must be from 1 to %d", maxPage)
		}
	}
	if len(list) > limit {
		list = list[:limit]
		w.Header().Set("X-Next-Token", tokenOf(list[limit-1]))
	}
	out := f.NewList(w, "")
	for _, l := range list {
		s := f.Engine().Living(l.id)
		if s == nil { // it has ended since
			continue
		}
		if err := out.Add(f.show(w, r, s)); err != nil {
			return out.Fail(err)
		}
	}
	return out.End(nil)
}

// tokenOf returns the token for the page after a sandbox. It remains valid if that sandbox ends.
func tokenOf(l listed) string { return fmt.Sprintf("%d.%s", l.started.UnixNano(), l.id) }

// from returns the part of a sorted list that follows the sandbox of a token.
func from(list []listed, token string, order int) ([]listed, error) {
	if token == "" {
		return list, nil
	}
	text, id, ok := strings.Cut(token, ".")
	at, err := strconv.ParseInt(text, 10, 64)
	if err != nil || !ok {
		return nil, sandbox.Invalidf("nextToken", "%.80q is not a token of this server", token)
	}
	last := time.Unix(0, at)
	i := slices.IndexFunc(list, func(l listed) bool {
		return order*cmp.Or(l.started.Compare(last), cmp.Compare(string(l.id), id)) > 0
	})
	if i < 0 {
		return nil, nil
	}
	return list[i:], nil
}

// metadataOf returns the pairs of a filter, which SDKs escape twice more than a query.
func metadataOf(text string) (map[string]string, error) {
	pairs, err := url.ParseQuery(text)
	wanted := map[string]string{}
	for name, values := range pairs {
		name, nameErr := url.PathUnescape(name)
		value, valueErr := url.PathUnescape(values[0])
		if err == nil {
			err = nameErr
		}
		if err == nil {
			err = valueErr
		}
		wanted[name] = value
	}
	if err != nil {
		return nil, sandbox.Invalidf("metadata", "%.100q is not escaped", text)
	}
	return wanted, nil
}
