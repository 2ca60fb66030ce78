//go:build unix

package javascript_test

import (
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/lang/javascript"
	"github.com/fumehood-dev/fumehood/test/langtest"
)

// TestDriverLate: what timers, promises and events of an earlier run write is background output.
func TestDriverLate(t *testing.T) {
	d := langtest.StartDriver(t, javascript.Language, nil)
	d.Run("const fs = require('fs'), cp = require('child_process')\n" +
		"const once = (name) => new Promise(r => { const t = setInterval(() => { if (fs.existsSync(name)) { " +
		"clearInterval(t); r() } }, 1) })")
	for name, c := range map[string]struct{ start, late string }{
		"timer": {"{ const t = setInterval(() => { if (fs.existsSync('N')) { clearInterval(t); " +
			"console.log('late') } }, 1) }", "late\n"},
		"promise": {"once('N').then(() => console.error('late'))", "late\n"},
		"await":   {"{ (async () => { await once('N'); process.stdout.write('late') })() }", "late"},
		"display": {"once('N').then(() => display({ a: 1 }))", "{ a: 1 }\n"},
		"child": {"cp.exec('until [ -e N ]; do sleep 0.01; done; echo late', (e, out) => " +
			"process.stdout.write(out))", "late\n"},
		"exception": {"once('N').then(() => setTimeout(() => { throw new Error('late') }, 0))", ""},
	} {
		t.Run(name, func(t *testing.T) {
			before := len(d.Background(0))
			if o := d.Run("console.log('own');\n" + strings.ReplaceAll(c.start, "N", name) +
				"; 0"); o.Stdout != "own\n" {
				t.Errorf("the run that starts it: %+v", o)
			}
			o := d.Run("console.log('next'); fs.writeFileSync('" + name + "', '')\n" +
				"for (let i = 0; i < 20; i++) { await new Promise(r => setTimeout(r, 10)); }\nconsole.log('end')")
			if o.Stdout != "next\nend\n" || o.Stderr != "" || len(o.Results) != 0 {
				t.Errorf("the next run: %+v", o)
			}
			got := d.Background(before + max(len(c.late), 1))[before:]
			if got != c.late && c.late != "" || c.late == "" && !strings.Contains(got, "Error: late") {
				t.Errorf("background output %q", got)
			}
		})
	}
}

// TestDriverOwn: code of the current run writes for it while an earlier run's timer lives: also functions that an
// earlier run defined, and what awaits a promise of one.
func TestDriverOwn(t *testing.T) {
	d := langtest.StartDriver(t, javascript.Language, nil)
	d.Run("const sleep = (ms) => new Promise(r => setTimeout(r, ms)); const say = () => console.log('said')\n" +
		"async function worker(n) { for (let i = 0; i < 3; i++) { await sleep(2); console.log(n + i) } }\n" +
		"const ticks = setInterval(() => console.log('tick'), 1), p = sleep(50)")
	for code, want := range map[string]string{
		"await p; console.log('p')":                                                                                 "p\n",
		"await Promise.all([worker('a')])":                                                                          "a0\na1\na2\n",
		"let b; worker('b').then(() => { b = 1 }); while (!b) await sleep(1)":                                       "b0\nb1\nb2\n",
		"setTimeout(say, 1); setTimeout(console.log, 1, 'x'); await sleep(100)":                                     "said\nx\n",
		"await require('fs').promises.readFile('/dev/null'); console.log('read')":                                   "read\n",
		"let r; require('fs').readFile('/dev/null', () => r = console.log('read') ?? 1); while (!r) await sleep(1)": "read\n",
	} {
		if o := d.Run(code); o.Stdout != want || o.Error != nil {
			t.Errorf("%s: %+v", code, o)
		}
	}
	if got := d.Background(10); strings.Trim(got, "tick\n") != "" {
		t.Errorf("background output %.200q", got)
	}
}

// TestDriverCharts shows charts by the SVG that they return as text.
func TestDriverCharts(t *testing.T) {
	d := langtest.StartDriver(t, javascript.Language, nil)
	for code, want := range map[string]string{
		"class Chart { toString() { return '<svg width=\"1\"></svg>' } }; new Chart()": "<svg width=\"1\"></svg>",
		"({ toString: () => '<?xml version=\"1.0\"?>\\n<svg/>' })": "<?xml " +
			"version=\"1.0\"?>\n<svg/>",
		"({ outerHTML: '<svg><g/></svg>' })": "<svg><g/></svg>",
		"({ toString() { throw 1 } })":       "",
		"new Date(0)":                        "",
		"'<svg>'":                            "",
	} {
		got := ""
		for _, s := range d.Run(code).Results {
			for _, form := range s.Forms {
				if form.Type == "image/svg+xml" {
					got = string(form.Data)
				}
			}
		}
		if got != want {
			t.Errorf("%s: %q, want %q", code, got, want)
		}
	}
}
