package main

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// sample is one line of the raw file: one run.
type sample struct {
	Section string  `json:"section"`
	Row     string  `json:"row"`
	At      string  `json:"at"`
	MS      float64 `json:"ms"`
	Error   string  `json:"error,omitempty"`
}

func newSample(section, row string, began time.Time, took time.Duration, err error) sample {
	s := sample{Section: section, Row: row, At: began.UTC().Format(time.RFC3339Nano), MS: milliseconds(took)}
	if err != nil {
		s.Error = err.Error()
	}
	return s
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// rawFile is a JSON-lines file of all samples, from which every figure of the tables can be recomputed.
type rawFile struct {
	path string
	file *os.File

	mu     sync.Mutex // guards buffer and encode
	buffer *bufio.Writer
	encode *json.Encoder
}

func createRaw(dir string, header any) (*rawFile, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, time.Now().UTC().Format("20060102T150405Z")+".jsonl")
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	r := &rawFile{path: path, file: f, buffer: bufio.NewWriter(f)}
	r.encode = json.NewEncoder(r.buffer)
	return r, r.encode.Encode(header)
}

func (r *rawFile) add(s sample) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.encode.Encode(s)
}

func (r *rawFile) close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.buffer.Flush(); err != nil {
		return err
	}
	return r.file.Close()
}
