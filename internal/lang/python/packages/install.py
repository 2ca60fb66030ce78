# Installs packages into a folder. Reads an order and prints a receipt, both as JSON. Prints progress on stderr.
import base64, compileall, contextlib, io, json, os, re, shutil, subprocess, sys, tempfile
import urllib.error, urllib.parse, urllib.request

order = json.load(sys.stdin)
scratch = tempfile.mkdtemp()
os.environ["HOME"] = scratch
index = order["index"]
secret = os.environ.get("FUMEHOOD_INDEX_SECRET")  # a placeholder that the gate replaces
if secret:
    index = index.replace("@", ":" + urllib.parse.quote(secret, safe="") + "@", 1)
uv = shutil.which("uv")


def run(argv):
    """Runs a command, copies its output to stderr, and returns its exit code and output."""
    text = []
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                          text=True, errors="replace") as p:
        for line in p.stdout:
            text.append(line)
            sys.stderr.write(line)
            sys.stderr.flush()
    return p.returncode, "".join(text)


def locked():
    path = os.path.join(scratch, "lock.txt")
    with open(path, "w") as f:
        f.write(order["lock"])
    return path


def lock_of(packages):
    return "".join(p["name"] + "==" + p["version"] + (" --hash=" + p["hash"] if p["hash"] else "") + "\n" for p in packages)


def required(lines):
    """Returns the names of the dependencies of a package without extras."""
    return sorted({canonical(l) for l in lines if "extra ==" not in l})


def describe_present(folder):
    """Makes folders that describe the packages that are there already, for an installer that resolves against them."""
    for text in order["present"]:
        fields = dict(line.partition(": ")[::2] for line in reversed(text.split("\n")))
        name, version = fields.get("Name", ""), fields.get("Version", "").strip()
        name = re.sub(r"[-.]+", "_", name.strip())
        if not re.fullmatch(r"[A-Za-z0-9_]+", name) or not re.fullmatch(r"[A-Za-z0-9.!+_]+", version):
            continue
        at = os.path.join(folder, "%s-%s.dist-info" % (name, version))
        os.makedirs(at, exist_ok=True)
        record = "".join("%s/%s,,\n" % (os.path.basename(at), file) for file in ("METADATA", "INSTALLER", "RECORD"))
        for file, content in ("METADATA", text + "\n"), ("INSTALLER", "pip\n"), ("RECORD", record), (PRESENT, ""):
            with open(os.path.join(at, file), "w", encoding="utf-8") as f:
                f.write(content)


PRESENT = "fumehood-present"  # a file in such a folder
# Runs pip with a further folder of installed packages, if it is not "". That has no modules, so nothing of a package is
# imported. Prints which pages of the index pip skips, which only its debug log has. Refuses pages that end early, which
# pip reads as whole ones with fewer versions. Also refuses archives that end early, unless this pip resumes downloads
# (25.1).
RUN_PIP = """
import logging, re, sys

class Skipped(logging.Handler):
    def emit(self, record):
        text = record.getMessage()
        if text.startswith("Could not fetch URL"):
            print(text, file=sys.stderr, flush=True)

log = logging.getLogger("pip._internal.index.collector")
log.setLevel(logging.DEBUG)
log.addHandler(Skipped())
sys.path[:0] = filter(None, [sys.argv.pop(1)])
from pip._vendor import urllib3
from pip._internal.cli import cmdoptions
from pip._internal.cli.main import main

resumes = hasattr(cmdoptions, "resume_retries")

class Whole(urllib3.response.HTTPResponse):
    def __init__(self, *values, **named):
        page = re.match("text/html|application/vnd.pypi.simple", named["headers"].get("content-type", ""))
        if page or not resumes:
            named["enforce_content_length"] = True
        super().__init__(*values, **named)

urllib3.connectionpool.HTTPConnectionPool.ResponseCls = Whole
sys.exit(main())
"""
# A page that the index may have. Without it, pip takes an older version of a package, or of what depends on it. The
# layer must not depend on the network of this installer, as others share it.
SKIPPED = re.compile(r"^Could not fetch URL (?:[a-z]+://)?(?:[^/@\s]*@)?(\S+): (?!4(?!08|29)\d\d )", re.M)


def gather(tree):
    """Moves what pip installed below a prefix into the folder of the layer."""
    os.makedirs(order["dir"], exist_ok=True)
    for base in tree, os.path.join(tree, "local"):  # the second is Debian's
        for lib in "lib", "lib64":
            versions = os.path.join(base, lib)
            for version in os.listdir(versions) if os.path.isdir(versions) else ():
                for site in "site-packages", "dist-packages":
                    merge(os.path.join(versions, version, site), order["dir"])
        for folder in "bin", "share":
            merge(os.path.join(base, folder), os.path.join(order["dir"], folder))
    shutil.rmtree(tree, ignore_errors=True)  # pip makes none if it installs nothing


def merge(source, to):
    if os.path.isdir(source):
        shutil.copytree(source, to, symlinks=True, dirs_exist_ok=True, copy_function=os.replace)


def with_pip(wanted):
    report = os.path.join(scratch, "report.json")
    tree = order["dir"] + ".tree"
    if order["present"]:  # --target ignores installed packages
        describe_present(os.path.join(scratch, "present"))
        argv = [sys.executable, "-I", "-c", RUN_PIP, os.path.join(scratch, "present"), "--isolated", "install", "--prefix", tree,
                "--no-warn-conflicts", "--no-warn-script-location"]
    else:
        argv = [sys.executable, "-c", RUN_PIP, "", "--isolated", "install", "--target", order["dir"]]
    argv += ["--no-compile", "--no-cache-dir", "--no-input", "--disable-pip-version-check", "--progress-bar", "off",
             "--root-user-action", "ignore", "--report", report, "--index-url", index]
    if index.startswith("http:"):
        argv += ["--trusted-host", urllib.parse.urlsplit(index).netloc]
    if not order["allow_build"]:
        argv += ["--only-binary", ":all:"]
    argv += ["--no-deps", "-r", locked()] if order["lock"] else wanted
    code, text = run(argv)
    skipped = SKIPPED.search(text)
    if skipped:
        text = "ERROR: " + UNFETCHED + skipped[1]
    if skipped or code:
        shutil.rmtree(tree, ignore_errors=True)
        return None, text
    if order["present"]:
        gather(tree)
    with open(report) as f:
        done = json.load(f)["install"]
    packages = []
    for p in done:
        hashes = p["download_info"].get("archive_info", {}).get("hashes", {})
        packages.append({"name": p["metadata"]["name"], "version": p["metadata"]["version"],
                         "requires": required(p["metadata"].get("requires_dist", ())),
                         "hash": "sha256:" + hashes["sha256"] if "sha256" in hashes else ""})
    return packages, text


def with_uv(wanted):
    flags = ["--default-index", index, "--no-config", "--no-cache", "--python", sys.executable, "--color", "never"]
    if index.startswith("http:"):
        flags += ["--allow-insecure-host", urllib.parse.urlsplit(index).netloc]
    build = [] if order["allow_build"] else ["--only-binary", ":all:"]
    if order["present"]:
        return add_with_uv(wanted, flags + build)
    lock = locked()
    if not order["lock"]:
        asked = os.path.join(scratch, "asked.txt")
        with open(asked, "w") as f:
            f.write("\n".join(wanted) + "\n")
        code, text = run([uv, "pip", "compile", *flags, *build, "--quiet", "--generate-hashes", "--no-header", "--no-annotate", "-o", lock, asked])
        if code:
            return None, text
    code, text = run([uv, "pip", "install", *flags, *build, "--no-deps", "--require-hashes", "--target", order["dir"], "-r", lock])
    if code:
        return None, text
    packages = []
    with open(lock) as f:
        for entry in re.split(r"\n(?=\S)", f.read().replace("\\\n", " ")):
            pin = re.match(r"([A-Za-z0-9._-]+)==([^\s;]+)", entry)
            if pin:  # of several hashes, for several platforms, that of the installed archive is unknown
                hashes = re.findall(r"--hash=(\S+)", entry)
                packages.append({"name": pin[1], "version": pin[2], "hash": hashes[0] if len(hashes) == 1 else ""})
    if not order["lock"]:
        with open(lock) as f:
            order["lock"] = f.read().replace("\\\n", " ")
    return packages, text


def add_with_uv(wanted, flags):
    """Installs only what is not there. uv regards the packages in its target as installed."""
    describe_present(order["dir"])
    code, text = run([uv, "pip", "install", *flags, "--target", order["dir"], *wanted])
    if code:
        return None, text
    packages = []
    for name in os.listdir(order["dir"]):
        at = os.path.join(order["dir"], name)
        if os.path.exists(os.path.join(at, PRESENT)):
            shutil.rmtree(at)
        elif name.endswith(".dist-info"):
            with open(os.path.join(at, "METADATA"), encoding="utf-8", errors="replace") as f:
                lines = f.read().partition("\n\n")[0].split("\n")
            fields = dict(line.partition(": ")[::2] for line in reversed(lines))
            needs = required(l.partition(": ")[2] for l in lines if l.startswith("Requires-Dist: "))
            packages.append({"name": fields["Name"], "version": fields["Version"], "requires": needs, "hash": ""})
    return packages, text


# Messages of pip and uv: a package is missing; it has no archive for this interpreter; the index is unreachable; the
# disk is full.
LACKS = re.compile((r"No matching distribution found for (NAME)|"
                    r"(?:^|\s)(NAME) was not found in the (?:package registry|provided)|Wheels are required for `(NAME)`|"
                    r"Because (NAME)(?:==\S+)? has no (?:usable )?(?:wheels|versions)").replace("NAME", "[A-Za-z0-9._-]+"))
UNREADY = re.compile(r"from versions: none|Wheels are required for|has no (?:usable )?wheels")
UNFETCHED = "the index does not answer a request for "
UNREACHED = re.compile(UNFETCHED + r"|Connection broken|Failed to establish a new connection|ConnectTimeout|"
                       r"Name or service not known|error sending request|error decoding response|dns error|"
                       r"not enough bytes")
FULL = re.compile(r"(?i)no space left on device|disk quota exceeded")
SOURCES = re.compile(rb"\.(?:tar\.gz|zip)\b")  # on a package's page


def on_index(name):
    """Returns the HTTP status of the index for a package, or 0, and whether the package has sources."""
    name = re.sub(r"[-_.]+", "-", name).lower()
    address = urllib.parse.urlsplit(index)
    page = address._replace(netloc=address.netloc.rpartition("@")[2]).geturl().rstrip("/") + "/" + name + "/"
    request = urllib.request.Request(page)
    if secret:
        token = base64.b64encode((address.username + ":" + secret).encode()).decode()
        request.add_header("Authorization", "Basic " + token)
    try:
        with urllib.request.urlopen(request, timeout=20) as page:
            return 200, bool(SOURCES.search(page.read(16 << 20)))
    except urllib.error.HTTPError as e:
        return e.code, False
    except Exception:
        return 0, False


def canonical(requirement):
    return re.sub(r"[-_.]+", "-", re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0]).lower()


def failure(text):
    lines = [l.strip() for l in text.splitlines()]
    if uv:  # its last lines have the error
        start = next((n for n, l in enumerate(lines) if re.match(r"error:|x |×", l)), 0)
        return "\n".join(re.sub(r"^(error|cause): ", "", l) for l in lines[start:] if l)[:4000]
    # An error of pip itself is "ERROR: Exception:" and a traceback, whose last line has the reason.
    errors = [l for l in lines if re.match(r"(?i)(error|hint:)", l) and l != "ERROR: Exception:"] or lines[-8:]
    if "ERROR: Exception:" in lines and errors == lines[-8:]:
        errors = ["pip failed: " + next((l for l in reversed(lines) if l), "")]
    conflict = [l for l in lines if " depends on " in l or "The user requested" in l or "The conflict is caused by" in l]
    keep = [l for l in dict.fromkeys(conflict + errors) if "pip's dependency resolver" not in l]
    return "\n".join(re.sub(r"^(ERROR|error): ", "", l) for l in keep)[:4000]


def install():
    wanted, optional, missing = list(order["requirements"]), list(order["found"]), []
    while True:
        if not wanted + optional and not order["lock"]:
            return {"packages": [], "missing": missing}
        packages, text = (with_uv if uv else with_pip)(wanted + optional)
        if packages is not None:
            return {"packages": packages, "lock": order["lock"] or lock_of(packages), "missing": missing}
        shutil.rmtree(order["dir"], ignore_errors=True)
        lacks = LACKS.search(text)
        name = next((g for g in lacks.groups() if g), "") if lacks else ""
        there, sources = on_index(name) if name else (None, False)
        lost = [r for r in optional if canonical(r) == canonical(name)] if name else []
        if lost and there in (200, 404):
            optional = [r for r in optional if r not in lost]
            missing += lost
            continue
        killed = "the installer ended without a message, perhaps for lack of memory"
        receipt = {"missing": missing, "error": failure(text) or killed}
        if there == 404:
            receipt["unknown"] = name
        elif there == 200 and UNREADY.search(text):
            receipt["unbuilt" if sources and not order["allow_build"] else "unfit"] = name
        elif there in (401, 403):
            receipt["denied"] = True
        elif FULL.search(text):
            receipt["full"] = True
        elif there not in (200, None) or UNREACHED.search(text):
            receipt["down"] = True
        return receipt


receipt = install()
os.makedirs(order["dir"], exist_ok=True)
if receipt.get("packages"):
    sys.stderr.write("Compiling\n")
    sys.stderr.flush()
    with contextlib.redirect_stdout(io.StringIO()):
        # The layer's files get other times, so the compiled ones must not depend on them. Tests of packages are seldom
        # imported.
        compileall.compile_dir(order["dir"], quiet=2, rx=re.compile(r"/tests?/"), workers=os.cpu_count() or 1,
                               invalidation_mode=__import__("py_compile").PycInvalidationMode.UNCHECKED_HASH)
json.dump(receipt, sys.stdout)
