# Displays the charts of libraries that show by a call. No chart needs the network, except Vega's HTML without
# vl_convert.
MAX_PAGE = 8 << 20  # bytes of a file that the code opens in a browser
PAGES = {".html": "HTML", ".htm": "HTML", ".svg": "SVG", ".png": "Image", ".jpg": "Image", ".jpeg": "Image"}


def chart_forms(value):
    """Returns the forms of a chart by media type, or None."""
    if is_instance(value, "plotly.basedatatypes", "BaseFigure"):
        return plotly_forms(value)
    if is_instance(value, "altair", "TopLevelMixin"):
        return vega_forms(value)
    if is_instance(value, "bokeh.models", "LayoutDOM"):
        from bokeh.embed import file_html
        from bokeh.resources import INLINE
        return {"text/html": lambda: file_html(value, INLINE)}


def plotly_forms(figure):
    import plotly.io
    return {
        "text/html": lambda: plotly.io.to_html(figure, include_plotlyjs=True, full_html=False),
        "application/vnd.plotly.v1+json": lambda: plotly.io.to_json(figure, validate=False),
    }


def vega_forms(chart):
    import altair
    import importlib.util
    inline = importlib.util.find_spec("vl_convert") is not None
    version = altair.SCHEMA_VERSION.lstrip("v").partition(".")[0]
    return {"text/html": lambda: chart.to_html(**{"inline": True} if inline else {}),
            "application/vnd.vegalite.v%s+json" % version: chart.to_dict}


def extend_plotly(module):
    def show_figure(fig, *args, **options):
        if isinstance(fig, dict):
            import plotly.graph_objects
            fig = plotly.graph_objects.Figure(fig, skip_invalid=True)
        show(fig, False)

    show_figure.__doc__ = module.show.__doc__
    module.show = show_figure


def extend_plotly_offline(module):
    module.init_notebook_mode = ignore


def extend_bokeh(module):
    def show_model(obj, *args, **options):
        from bokeh.io import save
        from bokeh.io.state import curstate
        if curstate().file:  # of output_file
            save(obj)
        for value in obj if isinstance(obj, (list, tuple)) else (obj,):
            show(value, False)

    show_model.__doc__ = module.show.__doc__
    module.show = show_model


def extend_bokeh_output(module):
    module.output_notebook = ignore


def extend_pillow(module):
    def show_image(image, title=None, **options):
        show(image, False)
        return True

    module.show = show_image


def extend_image(module):
    """In a sandbox of E2B's wire, saving an image to a path displays it, as in E2B's templates."""
    save = module.Image.save

    def save_image(self, fp, format=None, **params):
        import os
        if isinstance(fp, str) and os.environ.get("E2B_SANDBOX") == "true":
            show(self, False)
        return save(self, fp, format, **params)

    save_image.__doc__ = save.__doc__
    module.Image.save = save_image


def ignore(*args, **options):
    """Only configures a notebook."""


class Browser:
    """A browser that displays local files, for libraries that open one."""
    name = basename = "display"

    def open(self, url, new=0, autoraise=True):
        import os
        import urllib.parse
        parts = urllib.parse.urlsplit(url)
        path = urllib.parse.unquote(parts.path)
        kind = PAGES.get(os.path.splitext(path)[1].lower())
        if parts.scheme not in ("", "file") or kind is None or not os.path.isfile(path):
            return False
        if os.path.getsize(path) > MAX_PAGE:
            return False
        need("watch")
        show(getattr(ipython(), kind)(filename=path), False)
        return True

    def open_new(self, url):
        return self.open(url, 1)

    def open_new_tab(self, url):
        return self.open(url, 2)


def extend_browser(module):
    module.register("display", None, Browser(), preferred=True)
