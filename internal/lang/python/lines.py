"""Makes the interpreter write its output by lines, just before its program starts.

Python imports this file instead of sitecustomize. No frame, module, path or variable of it remains.
"""
import sys

folder = __file__.rpartition("/")[0]
sys.path.remove(folder)
sys.path_importer_cache.pop(folder, None)
environ = sys.modules["os"].environ
paths = environ["PYTHONPATH"].partition(":")[2]  # ours is the first
if paths:
    environ["PYTHONPATH"] = paths
else:
    del environ["PYTHONPATH"]
if not environ.get("PYTHONUNBUFFERED"):  # else the program asks for single writes
    for stream in sys.stdout, sys.stderr:
        if stream is not None:
            stream.reconfigure(line_buffering=True, write_through=False)
del sys.modules[__name__]
import sitecustomize  # that of the root, if any; its errors look as usual
