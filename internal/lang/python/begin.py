

def receive(read):
    """Reads the program from the host, with a function that reads so many bytes: the byte counts of its arguments and
    of its environment, then both, with a NUL byte after each string."""
    import os

    args, env = (int.from_bytes(read(4), "little") for _ in range(2))
    args, env = (bytes(read(n)).split(b"\0")[:-1] for n in (args, env))
    sys.argv += map(os.fsdecode, args)
    if hasattr(sys, "orig_argv"):  # since Python 3.10
        sys.orig_argv += map(os.fsdecode, args)
    os.environ.clear()
    for entry in env:
        name, _, value = entry.partition(b"=")
        os.environb[name] = value


folder = __file__.rpartition("/")[0]
try:
    at = serve()
except BaseException as failure:
    import os

    # Never return normally: the interpreter would continue, and run the program outside the sandbox.
    os.write(2, ("fumehood: the interpreter cannot begin: %r" % failure).encode())
    os._exit(1)
paths = [p for p in sys.modules["os"].environ.get("PYTHONPATH", "").split(":") if p]
sys.path[at:at] = paths
site = sys.modules["site"]
if site.ENABLE_USER_SITE and site.USER_SITE not in sys.path and sys.modules["os"].path.isdir(site.USER_SITE):
    # It did not exist when the interpreter started. It precedes the folders of the system, and is empty, as nothing has
    # run in the sandbox.
    system = [n for n, p in enumerate(sys.path) if p.endswith(("/site-packages", "/dist-packages")) and
              n >= at + len(paths)]
    sys.path.insert(system[0] if system else len(sys.path), site.USER_SITE)
del site
del sys.modules[__name__]
import sitecustomize  # that of the root, if any; its errors look as usual
