package main

import (
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
	"time"
)

// table writes aligned columns.
type table struct{ *tabwriter.Writer }

func newTable(w io.Writer, title string, columns ...string) table {
	fmt.Fprintf(w, "\n%s\n", title)
	t := table{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
	t.line(columns...)
	return t
}

func (t table) line(cells ...string) { fmt.Fprintln(t, strings.Join(cells, "\t")) }

func ms(d time.Duration) string {
	if d == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", milliseconds(d))
}

func times(ratio float64) string {
	if math.IsNaN(ratio) {
		return "-"
	}
	return fmt.Sprintf("%.2fx", ratio)
}

// printRows prints the rows side by side, each compared with bare Python and the peers in the same language.
func (r *report) printRows(rows []*row) {
	p50 := map[string]time.Duration{}
	for _, row := range rows {
		p50[row.name] = summarize(row.samples).p50
	}
	t := newTable(r.w, "One client, fresh isolation for each run, interleaved; milliseconds",
		"row", "class", "ok", "p50", "p90", "p99", "max",
		"/bare python", "/bare", "/bubblewrap", "/docker", "cpu ms/run")
	for _, row := range rows {
		s := summarize(row.samples)
		over := func(name string) string { return times(ratio(s.p50, p50[name])) }
		t.line(row.name, string(row.class), okOf(&row.loop),
			ms(s.p50), ms(s.p90), ms(s.p99), ms(s.max), over("bare python"), over("bare "+row.language),
			over("bubblewrap "+row.language), over("docker "+row.language), ms(row.cpuPerRun()))
	}
	t.Flush()
	for _, row := range rows {
		r.printFailures(row.name, row.failures)
	}
	fmt.Fprintln(r.w, "/bare, /bubblewrap and /docker compare with the same language there. "+
		"CPU counts all processes of a row, and of a server its sandboxes.")
}

const shownFailures = 3

// printFailures prints the first failures and counts all: one failed run fails the whole bench.
func (r *report) printFailures(name string, failures []error) {
	r.failed += len(failures)
	for i, err := range failures {
		if i == shownFailures {
			fmt.Fprintf(r.w, "FAILED %s: and %d more\n", name, len(failures)-i)
			return
		}
		fmt.Fprintf(r.w, "FAILED %s: %v\n", name, err)
	}
}
