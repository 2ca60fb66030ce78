package httpd

import (
	"bytes"
	"cmp"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/fumehood-dev/fumehood/internal/engine"
)

// Metrics are the metrics of GET /metrics. As the observer of an engine they count its runs, whichever face they came
// by. The values of labels are words of ours (route, status, language, ...), never of a client or a program: so the
// number of series is bounded, and nothing can be injected.
type Metrics struct {
	registry *prometheus.Registry
	handler  http.Handler

	requests        *prometheus.CounterVec
	seconds         *prometheus.HistogramVec
	inFlight        prometheus.Gauge
	runs            *prometheus.CounterVec
	runSeconds      *prometheus.HistogramVec
	dropped         prometheus.Counter
	slowReaders     prometheus.Counter
	overConnections prometheus.Counter
	panics          prometheus.Counter
	overRate        prometheus.Counter
	reloads         *prometheus.CounterVec
}

// From a millisecond to the longest runs.
var secondsBuckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}

// NewMetrics returns the metrics of a server of this version.
func NewMetrics(version string) *Metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	m := &Metrics{registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "fumehood_http_requests_total",
			Help: "HTTP requests by route, method and status."}, []string{"route", "method", "status"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "fumehood_http_request_seconds",
			Help: "Time from headers to the end of the answer.", Buckets: secondsBuckets}, []string{"route"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{Name: "fumehood_http_requests_in_flight",
			Help: "HTTP requests being served."}),
		runs: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "fumehood_runs_total",
			Help: "Runs that ended in a status, by language."}, []string{"language", "status"}),
		runSeconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "fumehood_run_seconds",
			Help: "Time of a run by phase.", Buckets: secondsBuckets}, []string{"phase"}),
		dropped: counter("fumehood_output_dropped_bytes_total", "Bytes of output over the limit."),
		slowReaders: counter("fumehood_http_clients_lost_total",
			"Clients dropped because they took their answer too slowly."),
		overConnections: counter("fumehood_http_connections_refused_total",
			"Connections closed because there were too many, in all or of one address."),
		panics:   counter("fumehood_http_panics_total", "Panics of request handlers."),
		overRate: counter("fumehood_http_rate_limited_total", "Requests refused because of the rate of their API key."),
	}
	m.reloads = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "fumehood_reloads_total",
		Help: "Reloads of keys or settings, by the result. A failed one kept the former state."}, []string{"result"})
	m.reloads.WithLabelValues("succeeded")
	m.reloads.WithLabelValues("failed")
	build := prometheus.NewGauge(prometheus.GaugeOpts{Name: "fumehood_build_info",
		Help: "Always 1; the label is the version.", ConstLabels: prometheus.Labels{"version": version}})
	build.Set(1)
	m.registry.MustRegister(m.requests, m.seconds, m.inFlight, m.runs, m.runSeconds, m.dropped, m.slowReaders,
		m.overConnections, m.panics, m.overRate, m.reloads, build, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.handler = promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
	return m
}

// workOf counts the work that is noted in shares.
func workOf(s *shares) prometheus.Collector {
	return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "fumehood_http_work_seconds_total",
		Help: "CPU time of requests and answers, by the estimate that divides it among API keys."},
		func() float64 { return s.seconds(&s.noted) })
}

// correctedOf counts what Measure adds to it.
func correctedOf(s *shares) prometheus.Collector {
	return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "fumehood_http_work_corrected_seconds_total",
		Help: "CPU time of requests and answers, beyond the estimate, that was measured under load."},
		func() float64 { return s.seconds(&s.corrected) })
}

func (m *Metrics) request(w *Response, r *http.Request, took time.Duration) {
	method := "other"
	switch r.Method {
	case http.MethodGet, http.MethodPost, http.MethodHead, http.MethodPut, http.MethodPatch, http.MethodDelete:
		method = r.Method
	}
	status := strconv.Itoa(w.status)
	if w.passed && len(status) == 3 { // the program chose it: bound the labels
		status = status[:1] + "xx"
	}
	m.requests.WithLabelValues(w.route, method, status).Inc()
	m.seconds.WithLabelValues(w.route).Observe(took.Seconds())
}

// Reloaded counts a reload of keys or settings.
func (m *Metrics) Reloaded(err error) {
	result := "succeeded"
	if err != nil {
		result = "failed"
	}
	m.reloads.WithLabelValues(result).Inc()
}

// Observe counts a run that has ended.
func (m *Metrics) Observe(o engine.Observation) {
	if o.Kind != engine.RunEnded {
		return
	}
	r := o.Result
	m.runs.WithLabelValues(cmp.Or(o.Language, "command"), string(r.Status)).Inc()
	m.dropped.Add(float64(max(r.Stdout.Dropped, 0) + max(r.Stderr.Dropped, 0)))
	t := &r.Timings
	for _, phase := range []struct {
		name string
		took time.Duration
	}{{"queue", t.Queue}, {"create", t.Create}, {"upload", t.Upload}, {"run", t.Run}, {"files", t.Files}} {
		m.runSeconds.WithLabelValues(phase.name).Observe(phase.took.Seconds())
	}
}

// engineCollector reports the engine's counts.
type engineCollector struct{ engine *engine.Engine }

// Describe sends nothing: Collect describes each metric.
func (engineCollector) Describe(chan<- *prometheus.Desc) {}

func (c engineCollector) Collect(out chan<- prometheus.Metric) {
	add := func(kind prometheus.ValueType, name, help string, value float64, labels prometheus.Labels) {
		d := prometheus.NewDesc("fumehood_engine_"+name, help, nil, labels)
		out <- prometheus.MustNewConstMetric(d, kind, value)
	}
	gauge := func(name, help string, value int) { add(prometheus.GaugeValue, name, help, float64(value), nil) }
	counter := func(name, help string, value float64) { add(prometheus.CounterValue, name, help, value, nil) }
	by := func(name, help string, value float64, label, of string) {
		add(prometheus.CounterValue, name, help, value, prometheus.Labels{label: of})
	}
	s, living := c.engine.Stats(), c.engine.Census()
	gauge("slots", "Most concurrent runs.", s.Slots)
	gauge("running", "Slots in use.", s.Running)
	gauge("queue", "Most runs that wait for a slot.", s.Queue)
	gauge("queued", "Runs that wait for a slot.", s.Queued)
	gauge("full_seconds", "For how long there is neither a slot nor a place in the queue.", int(s.FullFor.Seconds()))
	gauge("closing", "Boxes that are being closed after their run was answered.", s.Closing)
	gauge("boxes", "Boxes that exist.", s.Live)
	gauge("warm_boxes", "Boxes that are kept ready.", s.Warm)
	gauge("sandboxes", "Living sandboxes.", living.Sandboxes)
	gauge("contexts", "Contexts of living sandboxes.", living.Contexts)
	gauge("port_connections", "Open connections to ports of living sandboxes.", living.Ports)
	gauge("log_bytes", "Bytes on disk of the logs of ended runs in living sandboxes.", int(s.LogBytes))
	counter("panics_total", "Panics of runs.", float64(s.Panics))
	counter("forked_total", "Runs in a fork of a waiting interpreter.", float64(s.Forked))
	counter("parked_total", "Runs in an interpreter that waited in its sandbox.", float64(s.Parked))
	counter("cpu_seconds_total", "CPU time of all ended runs.", s.CPUTime.Seconds())
	for kind, n := range s.Refused {
		by("refused_total", "Runs that ended in an error, by its kind.", float64(n), "kind", kind.String())
	}
	const attempts = "Attempts of sandboxes to reach something, by the decision."
	const bytes = "Bytes of closed connections of sandboxes."
	by("network_attempts_total", attempts, float64(s.Network.Allowed), "decision", "allowed")
	by("network_attempts_total", attempts, float64(s.Network.Refused), "decision", "refused")
	by("network_bytes_total", bytes, float64(s.Network.Sent), "direction", "sent")
	by("network_bytes_total", bytes, float64(s.Network.Received), "direction", "received")
}

// keyCollector reports the API keys.
type keyCollector struct{ keys *Keyring }

// Describe sends nothing: Collect describes each metric.
func (keyCollector) Describe(chan<- *prometheus.Desc) {}

func (c keyCollector) Collect(out chan<- prometheus.Metric) {
	now, valid, first := time.Now(), 0, time.Time{}
	for _, key := range c.keys.Keys() {
		if key.Expired(now) {
			continue
		}
		valid++
		if !key.Expires.IsZero() && (first.IsZero() || key.Expires.Before(first)) {
			first = key.Expires
		}
	}
	gauge := func(name, help string, value float64) {
		out <- prometheus.MustNewConstMetric(prometheus.NewDesc(name, help, nil, nil), prometheus.GaugeValue, value)
	}
	gauge("fumehood_keys", "API keys that are valid.", float64(valid))
	if !first.IsZero() {
		gauge("fumehood_key_expiry_timestamp_seconds", "When the next API key expires.", float64(first.Unix()))
	}
}

// metricsSteps is the work of gathering and compressing the metrics.
const metricsSteps = 200

// ShowMetrics is the handler of GET /metrics. While the client reads, the answer is held as text alone, and counted.
func (s *Server) ShowMetrics(w *Response, r *http.Request) error {
	text := buffered{ResponseWriter: w, status: http.StatusOK}
	s.metrics.handler.ServeHTTP(&text, r)
	w.Steps(metricsSteps)
	if err := s.TryReserve(w, int64(text.Cap())-FreeAnswer); err != nil {
		return err
	}
	w.Header().Set("Content-Length", strconv.Itoa(text.Len()))
	w.WriteHeader(text.status)
	_, _ = w.Write(text.Bytes()) // an error is of the client's connection
	return nil
}

// buffered is an answer that is kept.
type buffered struct {
	http.ResponseWriter
	bytes.Buffer
	status int
}

func (b *buffered) WriteHeader(status int)            { b.status = status }
func (b *buffered) Write(p []byte) (int, error)       { return b.Buffer.Write(p) }
func (b *buffered) WriteString(s string) (int, error) { return b.Buffer.WriteString(s) }
