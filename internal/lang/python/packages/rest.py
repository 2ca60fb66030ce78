# Functions that the survey seldom needs: lists of requirements, lines of notebooks, and the installer of the root. They
# are compiled at their first use, with the globals of the survey.
SCRIPT = r"(?m)^# /// script$\s(?P<text>(^#(| .*)$\s)+)^# ///$"


def toml(text, *keys):
    """Returns a list of strings in a TOML text, or an empty list."""
    try:
        try:
            from tomllib import loads
        except ImportError:  # before 3.11
            from pip._vendor.tomli import loads
        value = loads(text)
        for key in keys:
            value = value[key]
    except (ImportError, ValueError, LookupError, TypeError, RecursionError):
        return []
    return [v for v in value if isinstance(v, str)] if isinstance(value, list) else []


def listed(text):
    """Yields the requirements in a requirements.txt, without options and addresses."""
    import re
    for line in text.splitlines():
        line = re.sub(r"(^|\s)#.*$", "", line).strip().rstrip("\\").split(" --hash")[0].strip()
        if line and not line.startswith("-") and "://" not in line:
            yield line


def plain(code):
    """Returns the code without lines that only notebooks support."""
    lines = code.split("\n")
    for i, line in enumerate(lines):
        if line.lstrip()[:1] in ("%", "!"):
            lines[i] = line[:len(line) - len(line.lstrip())] + "pass"
    return "\n".join(lines)


def mentions(node, name):
    """Reports whether an expression contains a name."""
    todo = [node]
    while todo:
        node = todo.pop()
        if name in (getattr(node, "id", ""), getattr(node, "attr", "")):
            return True
        for field in getattr(node, "_fields", ()):
            child = getattr(node, field, None)
            todo += child if type(child) is list else [child]
    return False


def lists(code):
    script = None
    if "# /// script" in code:
        import re
        script = re.search(SCRIPT, code)
    if script:
        requirements.extend(toml("\n".join(line[2:] for line in script.group("text").splitlines()), "dependencies"))
    for name, take in ("requirements.txt", listed), ("pyproject.toml", lambda text: toml(text, "project", "dependencies")):
        try:
            requirements.extend(take(read(os.path.join(WORKSPACE, name))))
        except OSError:
            pass


def satisfied(requirement):
    """Reports whether a package is installed, for a requirement without a version."""
    import importlib.metadata, re
    if not re.fullmatch(r"[A-Za-z0-9._-]+", requirement):
        return False
    try:
        importlib.metadata.version(requirement)
        return True
    except Exception:
        return False


def host():
    """Returns facts that only an installation needs. This takes longer than the rest of the survey."""
    import platform, shutil, sysconfig
    index, hosts, installer = "", [], ""
    if is_installed("pip"):
        installer = "pip"
        try:
            from pip._internal.models.index import PyPI
            index, hosts = PyPI.simple_url, [PyPI.netloc, PyPI.file_storage_domain]
        except Exception:
            pass
    if shutil.which("uv"):
        installer = "uv"
        if not index:  # the default of uv, which no command prints
            index, hosts = "https://pypi.org/simple", ["pypi.org", "files.pythonhosted.org"]
    tags = [sys.implementation.cache_tag, sysconfig.get_config_var("SOABI") or "", platform.machine(), *platform.libc_ver()]
    return {"platform": " ".join(tags), "installer": installer, "index": index, "hosts": hosts}
