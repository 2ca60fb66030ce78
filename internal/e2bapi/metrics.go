package e2bapi

import (
	"math"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// metric is one measurement of a sandbox.
type metric struct {
	Timestamp  time.Time `json:"timestamp"`
	Unix       int64     `json:"timestampUnix"`
	CPUCount   int64     `json:"cpuCount"`
	CPUUsed    float64   `json:"cpuUsedPct"`
	MemoryUsed int64     `json:"memUsed"`
	Memory     int64     `json:"memTotal"`
	Cache      int64     `json:"memCache"`
	DiskUsed   int64     `json:"diskUsed"`
	Disk       int64     `json:"diskTotal"`
}

// metrics is GET /sandboxes/{id}/metrics: one measurement of now, if the request's range includes it. The CPU is the
// mean since the sandbox began. The disk is not measured.
func (f *face) metrics(w *httpd.Response, r *http.Request, s *engine.Sandbox) error {
	now := time.Now().UTC()
	list := []metric{}
	wanted, err := inRange(r.URL.Query(), now)
	if err != nil {
		return err
	}
	if !wanted {
		return f.WriteJSON(w, list)
	}
	usage, err := s.Stats(r.Context())
	if err != nil {
		return err
	}
	limits := s.Info().Effective.Limits
	m := metric{Timestamp: now, Unix: now.Unix(), CPUCount: max(1, (limits.CPUMillis+999)/1000),
		MemoryUsed: max(0, usage.MemoryNow), Memory: limits.MemoryBytes, Disk: limits.DiskBytes}
	if usage.CPU > 0 && usage.Wall > 0 {
		m.CPUUsed = math.Min(100, 100*usage.CPU.Seconds()/usage.Wall.Seconds()/float64(m.CPUCount))
	}
	return f.WriteJSON(w, append(list, m))
}

// inRange reports whether a time is in the range of a request: from start to end, in seconds since 1970, as far as they
// are given. A client that names the present reads its clock before the server does.
func inRange(q url.Values, now time.Time) (bool, error) {
	const skew = 5 // seconds: E2B measures so often
	for _, bound := range []struct {
		name string
		out  func(second int64) bool
	}{
		{"start", func(second int64) bool { return now.Unix() < second }},
		{"end", func(second int64) bool { return now.Unix() > second+skew }},
	} {
		text := q.Get(bound.name)
		if text == "" {
			continue
		}
		second, err := strconv.ParseInt(text, 10, 64)
		if err != nil || second < 0 || second > math.MaxInt32<<8 {
			return false, sandbox.Invalidf(bound.name, "%.80q is not a number of seconds since 1970", text)
		}
		if bound.out(second) {
			return false, nil
		}
	}
	return true, nil
}
