# Displays the figures of matplotlib, each once.
figures_shown = []  # of this run


def picture(forms, main):
    """Returns a figure as PNG and closes it, so that it is displayed once. The value of the last expression stays text
    if it was displayed before."""
    figure = forms.value
    if main and any(figure is other for other in figures_shown):
        return None
    if len(figures_shown) < MAX_RESULTS:
        figures_shown.append(figure)
    buffer = io.BytesIO()
    try:
        figure.savefig(buffer, format="png", bbox_inches="tight")  # no limit: it may search fonts
    except Exception as e:
        forms.text = "<Figure: savefig raised %s: %s>" % (type(e).__name__, e)
    need("chartdata")
    chart = forms.call("chart", figure_chart, figure)
    if type(chart) is int:
        forms.notes.append("[the data of the chart was left out: it has %d points]" % chart)
    elif chart:
        forms.add("application/vnd.fumehood.chart+json", chart)
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close(figure)
    return buffer.getvalue() or None


def extend_pyplot(module):
    module.show = show_figures
    sys.modules["matplotlib.figure"].Figure.show = lambda self, warn=True: show(self, False)


def show_figures(*args, **options):
    """Displays and closes all figures; replaces pyplot.show. With block=False, they wait for the end of the run."""
    block = options.get("block", args[0] if args else None)
    if block is not None and not block:
        return
    pyplot = sys.modules["matplotlib.pyplot"]
    for number in pyplot.get_fignums():
        figure = pyplot.figure(number)
        pyplot.close(figure)
        if len(figure.get_children()) > 1:  # more than its background
            show(figure, False)
