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
        exec(compile(text_of(part), FILE, "exec"), GLOBALS)
        del PARTS[part]


def text_of(part):
    """Returns the text of a part. Those that few runs need are packed: an interpreter decodes its arguments slowly."""
    if PARTS[part] is None:
        import binascii
        import zlib
        words = zlib.decompress(binascii.a2b_base64(PARTS["packed"])).decode().split("\0")
        PARTS.update((name, text) for name, text in zip(words[::2], words[1::2]) if name in PARTS)
    return PARTS[part]


def take_parts(words):
    """Takes the parts from the arguments: names and texts, the packed parts last. Of these, the text begins with
    names."""
    PARTS.update(zip(words[::2], words[1::2]))
    names, _, PARTS["packed"] = PARTS["packed"].partition(":")
    PARTS.update(dict.fromkeys(names.split(",")))
