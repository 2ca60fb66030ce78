# Prints the version, whether the standard library is installed, and which other modules can be imported, by the names
# in import statements. A root file system may be broken, so each distribution is read separately.
import importlib.metadata, importlib.util, json, platform

modules = {}
for dist in importlib.metadata.distributions():
    try:
        name, version = dist.metadata["Name"], dist.version
        tops = set((dist.read_text("top_level.txt") or "").split())
        if not tops:
            tops = {str(f).split("/")[0].split(".")[0] for f in dist.files or () if str(f).endswith((".py", ".so"))}
        for top in tops or {name.replace("-", "_")}:
            if top.isidentifier() and not top.startswith("_") and importlib.util.find_spec(top):
                modules.setdefault(top, version)
    except Exception:
        pass
print(json.dumps({
    "version": platform.python_version(),
    "standard_library": all(map(importlib.util.find_spec, ("asyncio", "email", "sqlite3", "unittest"))),
    "modules": [{"name": name, "version": version} for name, version in sorted(modules.items())],
}))
