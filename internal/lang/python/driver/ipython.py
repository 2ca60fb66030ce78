# The modules of IPython that cells of notebooks import, where IPython is not installed. This part runs in each of them.
import sys


def is_address(text):
    return text.startswith(("http://", "https://")) and "\n" not in text


class DisplayObject:
    """Data of one media type."""
    media, attribute = "text/plain", None

    def __init__(self, data=None, url=None, filename=None, metadata=None, **options):
        if filename is not None:
            with open(filename, "rb") as file:
                data = file.read()
        elif isinstance(data, str) and is_address(data) and self.media != "text/html":
            url, data = data, None
        self.data, self.url, self.filename, self.options = data, url, filename, {"metadata": metadata, **options}

    def text(self):
        return self.data.decode("utf-8", "replace") if isinstance(self.data, bytes) else str(self.data or "")

    def _repr_mimebundle_(self, include=None, exclude=None):
        return {self.media: self.text()}

    def __repr__(self):
        return "<IPython.core.display.%s object>" % type(self).__name__


class HTML(DisplayObject):
    media = "text/html"

    def text(self):
        return DisplayObject.text(self) if self.url is None else '<a href="%s">%s</a>' % (self.url, self.url)

    __html__ = text


class Markdown(DisplayObject):
    media = "text/markdown"


class Latex(DisplayObject):
    media = "text/latex"


class Math(Latex):
    def text(self):
        return "$\\displaystyle %s$" % DisplayObject.text(self).strip("$")


class SVG(DisplayObject):
    media = "image/svg+xml"


class Pretty(DisplayObject):
    def __repr__(self):
        return self.text()


class Code(Pretty):
    pass


class Javascript(HTML):
    def text(self):
        return "<script>%s</script>" % DisplayObject.text(self)


class JSON(DisplayObject):
    def _repr_mimebundle_(self, include=None, exclude=None):
        import json
        data = json.loads(self.text()) if isinstance(self.data, (str, bytes)) else self.data
        return {"application/json": data, "text/plain": repr(data)}


class GeoJSON(JSON):
    pass


class Image(DisplayObject):
    """A picture: bytes, a file, or the address of one, which is not loaded."""

    def __init__(self, data=None, url=None, filename=None, format=None, embed=None, width=None, height=None, **options):
        if isinstance(data, str) and not data.startswith(("http://", "https://")):
            filename, data = data, None
        elif hasattr(data, "__fspath__"):
            filename, data = data, None
        DisplayObject.__init__(self, data, url, filename, width=width, height=height, **options)

    def _repr_mimebundle_(self, include=None, exclude=None):
        if self.data is None:
            return {"text/html": '<img src="%s"/>' % self.url, "text/plain": "<Image of %s>" % self.url}
        data = bytes(self.data)
        for media, start in ("image/png", b"\x89PNG"), ("image/jpeg", b"\xff\xd8\xff"):
            if data.startswith(start):
                return {media: data, "text/plain": repr(self)}
        if data.lstrip()[:5] in (b"<?xml", b"<svg "):
            return {"image/svg+xml": data.decode("utf-8", "replace")}
        import base64
        kind = "gif" if data.startswith(b"GIF") else "webp"
        return {"text/html": '<img src="data:image/%s;base64,%s"/>' % (kind, base64.b64encode(data).decode()),
                "text/plain": repr(self)}


class IFrame(HTML):
    def __init__(self, src, width="100%", height=400, **options):
        HTML.__init__(self, '<iframe src="%s" width="%s" height="%s" frameborder="0"></iframe>' % (src, width, height))
        self.src = src


class FileLink(HTML):
    def __init__(self, path, **options):
        HTML.__init__(self, '<a href="%s">%s</a>' % (path, path))

    def __repr__(self):
        return "FileLink: %s" % self.text()


FileLinks = FileLink


class Audio(HTML):
    tag = "audio"

    def __init__(self, data=None, filename=None, url=None, embed=None, rate=None, autoplay=False, **options):
        if isinstance(data, str):
            filename, data = data, None
        HTML.__init__(self, "<%s controls src=\"%s\"></%s>" % (self.tag, filename or url or "", self.tag))


class Video(Audio):
    tag = "video"


class DisplayHandle:
    """What display returns for a display_id. An update is displayed again."""

    def __init__(self, display_id=None):
        self.display_id = display_id

    def display(self, value, **options):
        display(value)

    update = display


class Bundle:
    """The forms of a value, by media type."""

    def __init__(self, data):
        self.data = data

    def _repr_mimebundle_(self, include=None, exclude=None):
        return self.data

    def __repr__(self):
        return str(self.data.get("text/plain", "<%s>" % ", ".join(self.data)))


def display(*values, include=None, exclude=None, metadata=None, transient=None, display_id=None, raw=False,
        clear=False, **options):
    for value in values:
        show(Bundle(value) if raw and isinstance(value, dict) else value)
    if display_id:
        return DisplayHandle(display_id if isinstance(display_id, str) else None)


def publish_display_data(data, metadata=None, **options):
    show(Bundle(data))


def update_display(value, **options):
    show(value)


def ignore(*args, **options):
    """Does nothing: the call only configures a notebook."""


clear_output = set_matplotlib_formats = set_matplotlib_close = ignore


def display_as(kind):
    def display_kind(*values, raw=False, **options):
        for value in values:
            show(kind(value) if raw else value)
    return display_kind


display_html, display_markdown, display_latex = display_as(HTML), display_as(Markdown), display_as(Latex)
display_svg, display_json = display_as(SVG), display_as(JSON)
display_png = display_jpeg = display_as(Image)
display_pretty, display_javascript = display_as(Pretty), display_as(Javascript)


class Formatter:
    enabled = True

    def for_type(self, kind, function=None):
        pass

    for_type_by_name = for_type


class DisplayFormatter:
    def __init__(self):
        self.formatters = {media: Formatter() for media in ("text/plain", "text/html", "text/latex", "image/png",
                                                            "image/jpeg", "image/svg+xml", "application/json")}


class Events:
    register = unregister = trigger = ignore


class InteractiveShell:
    """The shell of a notebook. It has the magics of the driver, and the names of the code."""
    config, events, display_formatter, execution_count = {}, Events(), DisplayFormatter(), 0

    @property
    def user_ns(self):
        return vars(sys.modules["__main__"])

    def run_line_magic(self, name, line, *args, **options):
        return call_magic(name, line, None, sys._getframe(1))

    def run_cell_magic(self, name, line, cell):
        return call_magic(name, line, cell, sys._getframe(1))

    def magic(self, text):
        name, _, line = text.lstrip("%").partition(" ")
        return call_magic(name, line, None, sys._getframe(1))

    def system(self, command):
        call_magic("!", command, None, sys._getframe(1))

    def getoutput(self, command, *args, **options):
        return call_magic("sx", command, None, sys._getframe(1))

    def run_cell(self, code, *args, **options):
        return run_cell(code, sys._getframe(1))

    def ev(self, expression):
        return eval(expression, self.user_ns)

    def ex(self, code):
        exec(code, self.user_ns)

    def push(self, names):
        self.user_ns.update(names)

    def register_magic_function(self, function, magic_kind="line", magic_name=None):
        add_magic(function, magic_kind == "cell", magic_name)

    enable_gui = enable_matplotlib = register_magics = set_custom_exc = set_next_input = ignore


InteractiveShell.instance = classmethod(lambda kind, *args, **options: get_ipython())
InteractiveShell.initialized = classmethod(lambda kind: True)


def register_line_magic(function):
    add_magic(function, False)
    return function


def register_cell_magic(function):
    add_magic(function, True)
    return function


def register_line_cell_magic(function):
    add_magic(function, False)
    add_magic(function, True)
    return function


class UsageError(Exception):
    """Wrong arguments of a magic of the code."""


def get_ipython(shell=InteractiveShell()):
    return shell
