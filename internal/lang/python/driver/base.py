# What the driver of a context (core.py) and that of a single run (once.py) share. It imports only modules that the
# interpreter has already loaded. The other parts (PARTS) are compiled at their first use.
#
# All parts share these globals. Their __builtins__ is a copy, so code that redefines print or len affects only itself.
import _io as io
import _signal as signal
import _thread as thread
import builtins
import posix
import sys

FILE = "<fumehood>"  # the file name of the driver in frames, which no traceback contains
INTERRUPT = signal.SIGINT
PIECE = 1 << 16  # bytes of one read; the capacity of a pipe

GLOBALS, NAMESPACE = globals(), vars(sys.modules["__main__"])
PARTS = {}
STDOUT, STDERR, EXCEPTHOOK = sys.stdout, sys.stderr, sys.excepthook
PID, MAIN = posix.getpid(), thread.get_ident()


def need(part):
    """Compiles a part at its first use. After an interrupt, the next use compiles it again."""
    if part in PARTS:
        exec(compile(PARTS[part], FILE, "exec"), GLOBALS)
        del PARTS[part]
