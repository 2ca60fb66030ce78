package httpd

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// metricNames returns the names of all metrics that a server may show.
func metricNames(t *testing.T) (names []string) {
	key, err := NewKey("alice", NewSecret())
	if err != nil {
		t.Fatal(err)
	}
	key.Expires = key.Expires.AddDate(9000, 0, 0)
	s := newServer(t, Config{Keys: NewKeyring(key)})
	described := make(chan *prometheus.Desc, 1000)
	s.metrics.registry.Describe(described)
	close(described)
	named := regexp.MustCompile(`fqName: "([^"]+)"`)
	for d := range described {
		names = append(names, named.FindStringSubmatch(d.String())[1])
	}
	families, err := s.metrics.registry.Gather() // those of collectors that describe none
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		names = append(names, f.GetName())
	}
	return append(names, "fumehood_engine_refused_total") // by kind, of which none has occurred
}

// TestMonitoring: the board and the alerts name only metrics that exist.
func TestMonitoring(t *testing.T) {
	known, inText := metricNames(t), regexp.MustCompile(`\b(?:fumehood|go|process)_[a-z0-9_]+`)
	for _, file := range []string{"grafana.json", "alerts.yml"} {
		text, err := os.ReadFile("../../deploy/monitoring/" + file)
		if err != nil {
			t.Fatal(err)
		}
		found := inText.FindAllString(string(text), -1)
		if len(found) < 8 {
			t.Errorf("%s names only %d metrics", file, len(found))
		}
		for _, name := range found {
			plain := strings.TrimSuffix(name, "_bucket")
			if !slices.Contains(known, plain) {
				t.Errorf("%s: there is no metric %s", file, name)
			}
		}
		if strings.HasSuffix(file, ".json") && !json.Valid(text) {
			t.Errorf("%s is not JSON", file)
		}
	}
}
