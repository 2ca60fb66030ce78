package keyfile

import (
	"strconv"
	"strings"
	"time"

	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// expiry is the time at which a key ends.
type expiry struct {
	at       time.Time
	absolute bool // in a file: a duration would move with each read
}

const maxDays = 100 * 366

func (e *expiry) Type() string { return "TIME" }

func (e *expiry) String() string {
	if e.at.IsZero() {
		return ""
	}
	return e.at.UTC().Format(time.RFC3339)
}

func (e *expiry) Set(text string) error {
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		e.at = at
		return nil
	}
	if at, err := time.Parse(time.DateOnly, text); err == nil {
		e.at = at
		return nil
	}
	if d := duration(text); !e.absolute && d > 0 {
		e.at = time.Now().Add(d).Truncate(time.Second)
		return nil
	}
	form := "90d, 12h, 2027-01-31 or 2027-01-31T18:00:00Z"
	if e.absolute {
		form = "2027-01-31 or 2027-01-31T18:00:00Z"
	}
	return sandbox.Invalidf("expires", "%.40q is not a time; write it like %s", text, form)
}

// duration parses a number of days, or what time.ParseDuration does. It returns 0 for anything else.
func duration(text string) time.Duration {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n > 0 && n <= maxDays {
			return time.Duration(n) * 24 * time.Hour
		}
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil || d > maxDays*24*time.Hour {
		return 0
	}
	return d
}

type rateValue httpd.Rate

func (r *rateValue) Type() string   { return "RATE" }
func (r *rateValue) String() string { return httpd.Rate(*r).String() }

func (r *rateValue) Set(text string) error {
	parsed, err := httpd.ParseRate(text)
	if err == nil {
		*r = rateValue(parsed)
	}
	return err
}
