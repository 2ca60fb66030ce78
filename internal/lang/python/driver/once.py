# The driver of a single run: a program with notebook syntax, or one that shows charts. It runs as the interpreter would
# run it, and what it displays becomes files of its folder: result-1.png, result-2.html. Texts are printed.
EXTENSIONS = {"image/png": "png", "image/jpeg": "jpg", "image/svg+xml": "svg", "text/html": "html", "text/latex": "tex",
              "text/markdown": "md", "application/json": "json"}  # of the form that is saved, the best first
sending, run_id, aside = False, b"1", -1


def send(kind, id, main, *fields, hold=False):
    """Saves a result, or prints its text."""
    forms = dict(zip(map(bytes.decode, fields[::2]), fields[1::2]))
    text = forms.pop("text/plain", None)
    if text is not None:
        forms.pop("application/json", None)
    media = next((media for media in EXTENSIONS if media in forms), None)
    if media is None:
        print((text or b"").decode("utf-8", "replace"))
        return
    number = 1
    while True:
        try:
            with io.open("%s/result-%d.%s" % (FOLDER, number, EXTENSIONS[media]), "xb") as file:
                file.write(forms[media])
            return
        except FileExistsError:
            number += 1


def start():
    """Makes the interpreter one that was started with the program's path and arguments."""
    global PATH, FOLDER
    import os
    PATH, count = sys.argv[2], int(sys.argv[3])
    last = 4 + 2 * count
    take_parts(sys.argv[4:last])
    sys.argv = [PATH] + sys.argv[last:]
    if hasattr(sys, "orig_argv"):
        sys.orig_argv = sys.orig_argv[:2] + sys.argv
    FOLDER = os.path.dirname(PATH)
    if not getattr(sys.flags, "safe_path", False):
        sys.path[0] = FOLDER
    NAMESPACE["__file__"] = PATH
    os.environ.setdefault("MPLBACKEND", "agg")


def explain(kind, failure, trace):
    """Prints an exception as the interpreter does, without the frames of the driver."""
    need("failures")
    try:
        import traceback
        text = describe(traceback, BaseException.with_traceback(failure, strip(trace.tb_next or trace)))[1]
    except BaseException:
        text = describe_simply(failure, kind.__name__)[1]
    complain(text)


def main():
    with io.open(PATH, "rb") as file:
        data = file.read()
    try:
        source = data.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError:  # of another encoding, which its first lines name
        source = None
    if source is None:
        codes = [compile(data, PATH, "exec", 0, True)]
    else:
        remember(source, PATH)
        codes = compiled(source, PATH)
    evaluate(codes)
    if pending:
        show_pending()


start()
need("run")
extend()
cell = PATH
sys.excepthook = explain
main()
