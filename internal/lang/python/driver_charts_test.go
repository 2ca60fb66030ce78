//go:build unix

package python_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/lang/python"
	"github.com/fumehood-dev/fumehood/sandbox"
	"github.com/fumehood-dev/fumehood/test/langtest"
)

// chartSite is a folder with matplotlib, pandas, pillow, plotly, altair and bokeh for the tests.
var chartSite = []string{"PYTHONPATH=" + os.Getenv("FUMEHOOD_TEST_PYTHONPATH"), "MPLCONFIGDIR=" + os.TempDir() +
	"/fumehood-matplotlib"}

// TestDriverCharts shows charts of libraries by their calls. Each is one result, without a message.
func TestDriverCharts(t *testing.T) {
	for module, c := range map[string]struct{ code, want string }{
		"plotly": {"import plotly.graph_objects as go, plotly.io as pio\nfig = go.Figure(go.Scatter(y=[1, " +
			"2]))\nfig.show()\n" +
			"pio.show({'data': [{'y': [1]}]})\nfig",
			"(display application/vnd.plotly.v1\\+json text/html text/plain <Figure chart>\n){2}" +
				"main application/vnd.plotly.v1\\+json text/html text/plain <Figure chart>\n"},
		"altair": {"import altair as alt, pandas as pd\nc = alt.Chart(pd.DataFrame({'a': " +
			"[1]})).mark_bar().encode(x='a')\n" +
			"c.show()\nc", "(display|main) application/vnd.vegalite.v\\d\\+json text/html text/plain <Chart chart>\n"},
		"bokeh": {"from bokeh.plotting import figure, show\nfrom bokeh.io import output_notebook\noutput_notebook()\n" +
			"p = figure(); p.line([1, 2], [1, 2])\nshow(p)", "display text/html text/plain <figure chart>\n"},
		"PIL": {"from PIL import Image\nImage.new('RGB', (2, 2)).show()", "display image/png text/plain .*\n"},
		"PIL.Image": {"import os\nimage = PIL.Image.new('RGB', (2, 2))\nimage.save('a.png')\n" +
			"os.environ['E2B_SANDBOX'] = 'true'\nimage.save('b.png')", "display image/png text/plain .*\n"},
		"matplotlib": {"import matplotlib.pyplot as plt\nfig, ax = plt.subplots()\nax.plot([1])\nfig.show()\n",
			"display application/vnd.fumehood.chart\\+json image/png text/plain .*\n"},
		"webbrowser": {"import os, webbrowser\nopen('a b.html', 'w').write('<p>')\n" +
			"webbrowser.open('file://' + os.getcwd() + '/a%20b.html'); webbrowser.open('http://127.0.0.1/')",
			"display text/html <p> text/plain <IPython.core.display.HTML object>\nmain text/plain False\n"},
	} {
		t.Run(module, func(t *testing.T) {
			t.Parallel()
			d := langtest.StartDriver(t, python.Language, chartSite)
			if o := d.Run("import " + module); o.Error != nil {
				t.Skipf("this machine lacks a package: %s", o.Error.Value)
			}
			o := d.Run(c.code)
			if !regexp.MustCompile("^(?:"+c.want+")+$").MatchString(forms(o)) || o.Error != nil ||
				o.Stderr+o.Stdout != "" {
				t.Errorf("got %s want %s\n%s%s", forms(o), c.want, o.Stdout, o.Stderr)
			}
			for _, shown := range o.Results {
				for _, form := range shown.Forms {
					if regexp.MustCompile(`<script [^>]*src=`).Match(form.Data) && module != "altair" {
						t.Errorf("the page needs the network: %.300s", form.Data)
					}
				}
			}
		})
	}
}

// TestDriverChartData reads the data of figures.
func TestDriverChartData(t *testing.T) {
	d := langtest.StartDriver(t, python.Language, chartSite)
	if o := d.Run("import matplotlib.pyplot as plt, datetime"); o.Error != nil {
		t.Skipf("this machine lacks a package: %s", o.Error.Value)
	}
	const box = `"first_quartile": 2.0, "median": 3.0, "third_quartile": 4.0, "max": 4.0, "outliers": \[20.0\]}`
	for code, want := range map[string]string{
		"plt.plot([1, 2], ['a', 'b']); plt.axhline(1); plt.xlabel('Time (s)'); plt.title('T')": `{"type": "line", ` +
			`"title": "T", "x_label": "Time \(s\)", "x_unit": "s", "y_label": null, .*"x_scale": "linear", .*` +
			`"y_tick_labels": \["a", "b"\], "y_scale": "categorical", "elements": \[{"label": "Line 0", ` +
			`"points": \[\[1.0, "a"\], \[2.0, "b"\]\]}\]}`,
		"plt.plot([datetime.date(2026, 1, d) for d in (1, 2)], [1, float('nan')]); plt.yscale('log')": `.*` +
			`"x_ticks": \["20..-..-..T00:00:00\+00:00", .*"x_scale": "datetime", .*"y_scale": "log", .*"points": ` +
			`\[\["2026-01-01", 1.0\], \["2026-01-02", null\]\]}\]}`,
		"plt.scatter([1], [2], label='S'); plt.axvline(1)": `{"type": "scatter", .*"label": "S", ` +
			`"points": \[\[1.0, 2.0\]\]}\]}`,
		"plt.bar(['a', 'b'], [1, 2], label='L'); plt.legend()": `{"type": "bar", .*"elements": \[` +
			`{"label": "a", "group": "L", "value": 1.0}, {"label": "b", "group": "L", "value": 2.0}\]}`,
		"plt.barh(['a'], [1]); plt.xlabel('x [EUR]')": `{"type": "bar", .*"y_label": "x \[EUR\]", ` +
			`"y_unit": "EUR", .*"elements": \[{"label": "a", "group": "Group 0", "value": 1.0}\]}`,
		"plt.pie([90, 10], labels=['x', 'y'], startangle=90)": `{"type": "pie", "title": null, "elements": \[` +
			`{"label": "x", "angle": 324.0, "radius": 1.0}, {"label": "y", "angle": 36.0, "radius": 1.0}\]}`,
		"plt.boxplot([[1, 2, 3, 4, 20]], patch_artist=True)": `{"type": "box_and_whisker", .*"label": "1", ` +
			`"min": 1.0, ` + box + `\]}`,
		"plt.boxplot([[1, 2, 3, 4, 20]], orientation='horizontal', patch_artist=True)": `{"type": ` +
			`"box_and_whisker", .*"label": "1", "min": 1.0, ` + box + `\]}`,
		"f, a = plt.subplots(1, 2); f.suptitle('S'); a[0].plot([1]); a[1].imshow([[1]])": `{"type": ` +
			`"superchart", "title": "S", "elements": \[{"type": "line", .*{"type": "unknown", "title": null, ` +
			`"elements": \[\]}\]}`,
		"plt.subplots()":          "",
		"plt.plot(range(100000))": "",
	} {
		o := d.Run("plt.close('all'); " + code + "\nplt.show()")
		got := ""
		for _, form := range o.Results[0].Forms {
			if form.Type == sandbox.MediaChart {
				got = string(form.Data)
			}
		}
		if !regexp.MustCompile("^"+want+"$").MatchString(got) || want == "" && got != "" {
			t.Errorf("%s: %s %s\nwant %s", code, got, o.Stderr, want)
		}
	}
	if o := d.Run("plt.plot(range(100000))\nplt.show()"); !strings.Contains(forms(o), "it has 100000 points") {
		t.Errorf("nothing reports that the data was left out: %s", forms(o))
	}
}

// TestDriverFonts draws letters that the font of matplotlib lacks: with another font of the root, or with one warning
// that names the cell.
func TestDriverFonts(t *testing.T) {
	const plot = "import matplotlib.pyplot as plt\nplt.rcParams['font.sans-serif'] = ['SimHei']\n" +
		"plt.title('中文中文'); plt.xlabel('文')\nplt.show()"
	d := langtest.StartDriver(t, python.Language, chartSite)
	if o := d.Run("import matplotlib.pyplot"); o.Error != nil {
		t.Skipf("this machine lacks a package: %s", o.Error.Value)
	}
	d.Run("from matplotlib import font_manager, get_data_path\nfonts = font_manager.fontManager.ttflist\n" +
		"fonts[:] = [font for font in fonts if font.fname.startswith(get_data_path())]")
	for _, code := range []string{plot, strings.Replace(plot, "show()", "savefig('a.png')", 1)} {
		o := d.Run(code)
		if n := strings.Count(o.Stderr, "missing from"); n != 1 || !strings.Contains(o.Stderr, "<cell ") ||
			strings.Contains(o.Stderr, "fumehood") || strings.Count(o.Stderr, "SimHei") > 1 {
			t.Errorf("%d warnings: %s", n, o.Stderr)
		}
	}
	d = langtest.StartDriver(t, python.Language, chartSite)
	o := d.Run(`from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen
pen = TTGlyphPen(None)
pen.moveTo((0, 0)); pen.lineTo((0, 900)); pen.lineTo((900, 0)); pen.closePath()
fb = FontBuilder(1000, isTTF=True)
fb.setupGlyphOrder(['.notdef', 'han', 'text'])
fb.setupCharacterMap({0x4E2D: 'han', 0x6587: 'text'})
fb.setupGlyf(dict.fromkeys(['.notdef', 'han', 'text'], pen.glyph()))
fb.setupHorizontalMetrics(dict.fromkeys(['.notdef', 'han', 'text'], (1000, 0)))
fb.setupHorizontalHeader(ascent=900, descent=0)
fb.setupNameTable({'familyName': 'Of The Root', 'styleName': 'Regular'})
fb.setupOS2(); fb.setupPost(); fb.save('root.ttf')
from matplotlib import font_manager
font_manager.fontManager.addfont('root.ttf')
` + plot)
	if strings.Contains(o.Stderr, "missing from") || o.Error != nil || len(o.Results) != 1 {
		t.Errorf("with a font: %s%s", forms(o), o.Stderr)
	}
}

// TestDriverWarnings: a warning about what the driver calls names the cell.
func TestDriverWarnings(t *testing.T) {
	d := langtest.StartDriver(t, python.Language, nil)
	o := d.Run("import warnings\nclass C:\n    def _repr_html_(self):\n        warnings.warn('old', stacklevel=2)\n" +
		"        return '<b>'\n\ndisplay(C())\n")
	if o.Stderr != "<cell 1>:7: UserWarning: old\n  display(C())\n" {
		t.Errorf("%s", o.Stderr)
	}
	for range 2 {
		if o := d.Run("warnings.warn('again')"); !strings.Contains(o.Stderr, "UserWarning: again") {
			t.Errorf("a warning of an earlier run: %q", o.Stderr)
		}
	}
	d.Run("async def f(): pass\nf()")
	if o := d.Run("1"); strings.Contains(o.Stderr, "fumehood") || !strings.Contains(o.Stderr, "never awaited") {
		t.Errorf("%s", o.Stderr)
	}
}
