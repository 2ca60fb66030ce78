# Extends foreign modules when the code imports them, and stands in for IPython where it is not installed.
STAND_INS = set("""IPython IPython.display IPython.core IPython.core.display IPython.core.display_functions
    IPython.core.getipython IPython.core.interactiveshell IPython.core.magic IPython.core.error IPython.lib
    IPython.lib.display IPython.utils IPython.utils.io""".split())


class Loader:
    """Loads a module with its own loader, and then extends it."""

    def __init__(self, loader, extend):
        self.loader, self.extend = loader, extend

    def create_module(self, spec):
        return self.loader.create_module(spec)

    def exec_module(self, module):
        module.__spec__.loader = module.__loader__ = self.loader
        self.loader.exec_module(module)
        self.extend(module)


class StandIn:
    """Loads a module of IPython that is not installed."""

    @staticmethod
    def create_module(spec):
        return None

    @staticmethod
    def exec_module(module):
        for name, value in vars(ipython()).items():
            if not name.startswith("_"):
                setattr(module, name, value)
        module.__version__, module.version_info = "8.24.0", (8, 24, 0, "")  # whose interface the stand-in has


def watched(name, path, target):
    for finder in sys.meta_path:
        if finder is not Watch and hasattr(finder, "find_spec"):
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                if name in WATCHED and hasattr(spec.loader, "exec_module"):
                    function, part = WATCHED[name].split()
                    need(part)
                    spec.loader = Loader(spec.loader, GLOBALS[function])
                return spec
    if name in STAND_INS:
        from importlib.machinery import ModuleSpec
        return ModuleSpec(name, StandIn, is_package=True)


def ipython():
    """Returns the module that stands in for IPython."""
    global stand_in
    if stand_in is None:
        module = type(sys)("IPython")
        vars(module).update(show=lambda value: show(value, False), call_magic=magic, add_magic=add, run_cell=run_cell)
        exec(compile(text_of("ipython"), FILE, "exec"), vars(module))
        stand_in = module
    return stand_in


stand_in = None


def magic(*args):
    need("magics")
    return call_magic(*args)


def add(*args):
    need("magics")
    add_magic(*args)


def run_cell(code, frame):
    evaluate(compiled(code, frame.f_code.co_filename))


def extend_ipython(module):
    """Displays through the driver where IPython is installed."""
    for name in "display", "publish_display_data", "update_display", "clear_output":
        setattr(module, name, display if name == "display" else getattr(ipython(), name))


def extend_getipython(module):
    module.get_ipython = get_ipython


def keep_lines(linecache):
    """Lets linecache find the source of runs. It compares no entry without a modification time with a file."""
    for name, source in SOURCES.items():
        if name not in linecache.cache:
            lines = (source if source[-1:] == "\n" else source + "\n").splitlines(True)  # as linecache does
            linecache.cache[name] = len(source), None, lines, name


def extend_warnings(module):
    """Lets warnings name the cell instead of the driver, which calls methods of the code."""
    before = module.formatwarning

    def formatwarning(message, category, filename, lineno, line=None):
        if filename == FILE:
            filename, lineno = place()
        return before(message, category, filename, lineno, line)

    module.formatwarning = formatwarning


def place():
    """Returns the line of the code that called the driver, or else the last line of the last run."""
    frame = sys._getframe()
    for ours in True, False:  # first this function and its caller, then what warned
        while frame is not None and (frame.f_code.co_filename == FILE) == ours:
            frame = frame.f_back
    while frame is not None:
        if frame.f_code.co_filename in SOURCES:
            return frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back
    return cell, SOURCES.get(cell, "").rstrip().count("\n") + 1
