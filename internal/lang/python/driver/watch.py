# Extends a foreign module when the code imports it.


class Loader:
    """Loads a module with its own loader, and then extends it."""

    def __init__(self, loader, name):
        self.loader, self.name = loader, name

    def create_module(self, spec):
        return self.loader.create_module(spec)

    def exec_module(self, module):
        module.__spec__.loader = module.__loader__ = self.loader
        self.loader.exec_module(module)
        if self.name == "linecache":
            keep_lines(module)
        elif self.name == "matplotlib.pyplot":
            need("figures")
            module.show = show_figures
        else:
            module.display = display


def watched(name, path, target):
    for finder in sys.meta_path:
        if finder is not Watch and hasattr(finder, "find_spec"):
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                if hasattr(spec.loader, "exec_module"):
                    spec.loader = Loader(spec.loader, name)
                return spec


def keep_lines(linecache):
    """Lets linecache find the source of runs. It compares no entry without a modification time with a file."""
    for name, source in SOURCES.items():
        if name not in linecache.cache:
            linecache.cache[name] = len(source), None, source.splitlines(True), name
