# Displays values in all their forms, richest first, text last.
need("limits")
MAX_FORM = 8 << 20  # bytes of one form
MAX_FORMS = 20 << 20  # bytes of all forms of one value
MAX_RUN_BYTES = 48 << 20  # of all forms of one run; the engine has a higher limit
LEAST_TEXT = 1000  # characters of text/plain beyond that
MAX_EXTRA = 24  # forms besides the text; a frame has fewer than 64 fields
MAX_TEXT = 1 << 20  # characters of text/plain
MAX_JSON, MAX_ITEMS = 256 << 10, 1 << 16  # bytes, and values within, of a plain dict or list as JSON
MAX_BITS = 4096  # of an int whose text needs no limit of time
MAX_ROWS = 1000  # and columns of a pandas frame as JSON
WIDE = 20  # columns of a frame, where pandas has no limit
CHARTS = {"plotly.basedatatypes", "altair", "bokeh.models"}  # modules with charts
SCALARS = int, float, bool, str, bytes
METHODS = {  # richest first
    "text/html": "_repr_html_", "image/svg+xml": "_repr_svg_", "image/png": "_repr_png_", "image/jpeg": "_repr_jpeg_",
    "text/latex": "_repr_latex_", "text/markdown": "_repr_markdown_", "application/json": "_repr_json_",
}
RANK = {media: rank for rank, media in enumerate(METHODS)}
SIGNATURES = {"image/png": b"\x89PNG\r\n\x1a\n", "image/jpeg": b"\xff\xd8\xff"}


def show_value(value, main):
    global shown, skipped
    shown += 1
    if shown > MAX_RESULTS and not main:
        skipped += 1
        return
    forms = Forms(value)
    if type(value) in SCALARS:
        huge = type(value) is int and value.bit_length() > MAX_BITS
        forms.text = forms.call("repr", int.__repr__, value) if huge else repr(value)
    else:
        forms.collect(main)
    found = sorted(forms.found.items(), key=lambda form: RANK.get(form[0], -1))
    fields = [field for form in found for field in (form[0].encode(), form[1])]
    send(b"result", run_id, b"1" if main else b"0", *fields, *forms.plain(), hold=main)


def show_skipped():
    """Reports how many values were not displayed."""
    global skipped
    count, skipped = skipped, 0
    note = "[%d more results were not shown: a run shows %d]" % (count, MAX_RESULTS)
    send(b"result", run_id, b"0", b"text/plain", note.encode())


def spent(more=0):
    """Counts the bytes of this run's results, and returns their number."""
    global spent_run, spent_bytes
    if spent_run != runs:
        spent_run, spent_bytes = runs, 0
    spent_bytes += more
    return spent_bytes


spent_run = spent_bytes = 0


class Forms:
    """The forms of one value. A method of the code that raises, hangs or returns a wrong type affects only its form."""

    def __init__(self, value):
        self.value, self.kind = value, type(value)
        self.found, self.size = {}, 0  # by media type, encoded
        self.text = self.failure = None
        self.notes, self.hung = [], False

    def call(self, what, function, *args):
        """Calls a method of the code. Returns None if it fails."""
        if self.hung:
            return None  # the next one would hang as well
        try:
            return limited(function, *args)
        except KeyboardInterrupt:
            raise
        except Hung:
            self.hung = True
            self.failure = "%s took longer than %d s" % (what, MAX_SECONDS)
            self.notes.append("[%s]" % self.failure)
        except BaseException as e:
            try:
                text = limited(str, e)[:500]
            except BaseException:
                text = "<exception str() failed>"
            self.failure = "%s raised %s: %s" % (what, type(e).__name__, text)
        return None

    def collect(self, main):
        if is_instance(self.value, "matplotlib.figure", "Figure"):
            need("figures")
            self.add("image/png", picture(self, main))
        elif CHARTS & sys.modules.keys() and self.collect_chart():
            return
        elif is_instance(self.value, "pandas", "DataFrame", "Series"):
            self.add("application/json", self.call("to_json", frame_json, self.value))
            if not hasattr(self.kind, "_repr_html_"):  # a Series
                self.add("text/html", self.call("to_html", lambda: self.value.to_frame()._repr_html_()))
        elif self.kind in (dict, list) and is_plain(self.value):
            self.add("application/json", self.call("JSON", plain_json, self.value))
        bundle = getattr(self.kind, "_repr_mimebundle_", None)
        if bundle is not None:
            bundle = self.call("_repr_mimebundle_", lambda: bundle(self.value, include=None, exclude=None))
            if isinstance(bundle, tuple) and bundle:
                bundle = bundle[0]
            for media, data in list(bundle.items())[:MAX_EXTRA] if isinstance(bundle, dict) else ():
                if media == "text/plain" and isinstance(data, str):
                    self.text = data
                else:
                    self.add(media, data)
        photo = getattr(self.value, "format", None) == "JPEG"  # of pillow, which is smaller as such
        for media, name in reversed(METHODS.items()) if photo else METHODS.items():
            method = getattr(self.kind, name, None)  # of the class: an instance may have any attribute
            if method is not None and media not in self.found and not (media in SIGNATURES
                    and self.found.keys() & SIGNATURES):
                self.add(media, self.call(name, method, self.value))
        if self.text is None:
            self.text = self.call("repr", repr, self.value)

    def collect_chart(self):
        """Collects the forms of a chart, and reports whether the value is one."""
        need("charts")
        forms = self.call("forms", chart_forms, self.value)
        for media, form in (forms or {}).items():
            try:
                self.add(media, form())  # no limit: it may load modules, and a library of JavaScript
            except Exception as e:
                self.notes.append("[%s was left out: %s: %s]" % (media, type(e).__name__, e))
        self.text = "<%s chart>" % self.kind.__name__ if forms else None
        return bool(forms)

    def add(self, media, data):
        """Adds a form, unless its data does not match its type."""
        if isinstance(data, tuple) and data:
            data = data[0]  # with metadata
        if data is None or not isinstance(media, str):
            return
        try:
            data = encode(media, data)
        except KeyboardInterrupt:
            raise
        except BaseException:
            return
        if data is None:
            return
        if len(data) > MAX_FORM or self.size + len(data) > MAX_FORMS or spent() + len(data) > MAX_RUN_BYTES:
            self.notes.append("[%s was left out: it has %d bytes]" % (media, len(data)))
            return
        self.size += len(data)
        spent(len(data))
        self.found[media] = data

    def plain(self):
        """Returns the fields of text/plain, truncated and with notes, if any."""
        text, most = self.text, MAX_TEXT if spent() < MAX_RUN_BYTES else LEAST_TEXT
        if not isinstance(text, str):
            if self.found and not self.notes:
                return ()
            text = "<%s: %s>" % (self.kind.__name__, self.failure or "repr returned no text")
        elif self.notes:
            text = str.__str__(text)[:most] + "\n" + "\n".join(self.notes)
        data = str.__str__(text)[:most].encode("utf-8", "backslashreplace")
        if len(text) > most:
            data += b"\n[%d more characters]" % (len(text) - most)
        spent(len(data))
        return b"text/plain", data


def encode(media, data):
    """Returns the bytes of a form, or None if they cannot be of this type."""
    if media in SIGNATURES:
        if isinstance(data, str):
            import binascii
            data = binascii.a2b_base64(data)
        data = b"".join([data])
        return data if data.startswith(SIGNATURES[media]) else None
    if media == "application/json" or media.startswith("application/vnd.") and media.endswith("+json") and len(media) <= 100:
        if not isinstance(data, str):
            import json
            data = limited(lambda: json.dumps(data, allow_nan=False))
    elif media not in METHODS or not isinstance(data, str):
        return None
    return str.__str__(data).encode("utf-8", "backslashreplace")


def is_instance(value, module, *names):
    """Reports whether the class of a value is in a module, without importing the module."""
    module = sys.modules.get(module)
    return any(isinstance(value, kind) for kind in (getattr(module, name, None) for name in names) if isinstance(kind, type))


def is_plain(value):
    """Reports whether a value is small, and JSON represents it completely."""
    todo, left = [value], MAX_ITEMS
    while todo:
        item = todo.pop()
        kind = type(item)
        if kind is dict or kind is list:
            left -= len(item) + 1
            if left < 0 or kind is dict and not all(type(key) is str for key in item):
                return False
            todo += item.values() if kind is dict else item
        elif kind is str:
            left -= len(item) >> 2
            if left < 0:
                return False
        elif kind is float:
            if item - item != 0:  # infinite, or no number
                return False
        elif kind is not int and kind is not bool and item is not None:
            return False
    return True


def plain_json(value):
    import json
    text = json.dumps(value, ensure_ascii=False)
    text.encode()  # lone surrogates raise
    return text if len(text) <= MAX_JSON else None


def frame_json(frame):
    """Returns a pandas frame as {"columns": [], "index": [], "data": []}. Of one that pandas shows shortened, it
    returns what pandas shows, with "shape". The code asks for more by the options display.max_rows and display.max_columns."""
    import pandas
    rows, columns = len(frame), frame.shape[1] if frame.ndim > 1 else 1
    most, least = pandas.get_option("display.max_rows"), pandas.get_option("display.min_rows")
    part = shortened(frame, rows, most, least, 0)
    if frame.ndim > 1:
        most = pandas.get_option("display.max_columns")
        part = shortened(part, columns, most or WIDE, most or WIDE, 1)
    text = part.to_json(orient="split", date_format="iso", double_precision=15)
    return text if part.shape == frame.shape else '%s,"shape":[%s]}' % (text[:-1], ",".join(map(str, frame.shape)))


def shortened(frame, size, most, least, axis):
    """Returns the first and the last rows or columns of a frame, as many as pandas shows."""
    most = MAX_ROWS if most is None else min(most or MAX_ROWS, MAX_ROWS)
    if size <= most:
        return frame
    half = max(1, min(least or most, most) // 2)
    places = [*range(half), *range(size - half, size)]
    return frame.iloc[places] if axis == 0 else frame.iloc[:, places]
