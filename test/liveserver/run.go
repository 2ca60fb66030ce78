package liveserver

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// Request has the fields of POST /v1/run that these tests use.
type Request struct {
	Language    string            `json:"language,omitempty"`
	Code        string            `json:"code,omitempty"`
	Command     []string          `json:"command,omitempty"`
	Args        []string          `json:"args,omitempty"`
	Stdin       string            `json:"stdin,omitempty"`
	Files       []File            `json:"files,omitempty"`
	Env         map[string]string `json:"env,omitempty"`
	Limits      *Limits           `json:"limits,omitempty"`
	ReturnFiles []string          `json:"return_files,omitempty"`
	Packages    []string          `json:"packages,omitempty"`
	Volumes     []Volume          `json:"volumes,omitempty"`
	Image       string            `json:"image,omitempty"`
}

// Volume is a named volume of a request.
type Volume struct {
	Name string `json:"name"`
	Path string `json:"path"`
}

// File is a file of a request or an answer. Answers have text as Text, other bytes as Content.
type File struct {
	Path    string `json:"path"`
	Size    int64  `json:"size,omitempty"`
	Text    string `json:"content,omitempty"`
	Content []byte `json:"content_base64,omitempty"`
}

// Bytes returns the content.
func (f *File) Bytes() string { return f.Text + string(f.Content) }

// Limits are the limits of a request; zero means the default.
type Limits struct {
	TimeoutS  float64 `json:"timeout_s,omitempty"`
	MemoryMiB float64 `json:"memory_mib,omitempty"`
	DiskMiB   float64 `json:"disk_mib,omitempty"`
	Pids      int64   `json:"pids,omitempty"`
	OutputKiB float64 `json:"output_kib,omitempty"`
}

// Answer has the fields of an answer that these tests use.
type Answer struct {
	ID       string          `json:"id"`
	Status   string          `json:"status"`
	ExitCode *int            `json:"exit_code"`
	Signal   json.RawMessage `json:"signal"`
	Stdout   string          `json:"stdout"`
	Stderr   string          `json:"stderr"`
	Files    []File          `json:"files"`
	Hint     string          `json:"hint"`
	Timings  Timings         `json:"timings"`
}

// Timings are the durations of a run's phases.
type Timings struct {
	Create float64 `json:"create_ms"`
	Run    float64 `json:"run_ms"`
}

// StatusError is an answer other than 200.
type StatusError struct {
	Status int
	Body   string
}

func (e *StatusError) Error() string { return fmt.Sprintf("HTTP %d: %s", e.Status, e.Body) }

// Bounds on reading an answer.
const (
	maxAnswer  = 256 << 20
	maxProblem = 4 << 10
)

// Encode returns the body of a request. A measured loop encodes it once.
func (r *Request) Encode() []byte {
	body, err := json.Marshal(r)
	if err != nil {
		panic(err) // every value of the type can be encoded
	}
	return body
}

// Run sends one request and reads its answer.
func (s *Server) Run(ctx context.Context, r *Request) (*Answer, error) {
	return s.Post(ctx, r.Encode())
}

// Post sends the body of one request to /v1/run and reads its answer.
func (s *Server) Post(ctx context.Context, body []byte) (*Answer, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+"/v1/run", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := s.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, maxProblem))
		return nil, &StatusError{Status: response.StatusCode, Body: string(text)}
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return nil, err
	}
	answer := new(Answer)
	if err := json.Unmarshal(text, answer); err != nil {
		return nil, fmt.Errorf("the answer is not JSON: %w", err)
	}
	return answer, nil
}

// Idle reports whether the server is idle, and the number of its warm sandboxes.
func (s *Server) Idle(ctx context.Context) (warm int, idle bool) {
	text := s.metrics(ctx)
	figure := func(name string) int {
		n, ok := metric(text, "fumehood_engine_"+name)
		if !ok {
			return -1
		}
		return int(n)
	}
	warm = figure("warm_boxes")
	idle = figure("running") == 0 && figure("queued") == 0 && figure("closing") == 0 && figure("boxes") == warm &&
		len(Sandboxes(s.PID())) == warm
	return warm, idle
}

// Metric is one figure of /metrics.
func (s *Server) Metric(ctx context.Context, name string) (value float64, found bool) {
	return metric(s.metrics(ctx), name)
}

// metrics is the text of /metrics, empty if the server does not answer.
func (s *Server) metrics(ctx context.Context) []byte {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/metrics", nil)
	if err != nil {
		return nil
	}
	response, err := s.client.Do(request)
	if err != nil {
		return nil
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return nil
	}
	return text
}

func metric(text []byte, name string) (value float64, found bool) {
	for line := range bytes.Lines(text) {
		if n, err := fmt.Sscanf(string(line), name+" %g", &value); err == nil && n == 1 {
			return value, true
		}
	}
	return 0, false
}
