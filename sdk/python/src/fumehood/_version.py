"""The version of this package. The build loads this file by itself."""

from __future__ import annotations

import os
import re
import subprocess
from functools import cache
from pathlib import Path

UNKNOWN = "unknown"


@cache
def version() -> str:
    """Return the version of the installed package, or unknown."""
    from importlib import metadata  # noqa: PLC0415 - slow to import

    try:
        return metadata.version("fumehood")
    except metadata.PackageNotFoundError:  # used from its source
        return UNKNOWN


def same(server: str) -> bool:
    """Return whether a server has this version, or one of both is unknown."""
    return UNKNOWN in (server, version()) or public(server) == version()


def public(described: str) -> str:
    """Return the version of Fumehood, from git describe, as Python packages write it (PEP 440)."""
    found = re.fullmatch(r"v?(\d+(?:\.\d+)*)(?:-(\d+))?(?:-g([0-9a-f]+))?(-dirty)?", described)
    commit = re.fullmatch(r"([0-9a-f]{7,40})(-dirty)?", described)
    if commit:  # there is no tag yet
        return "0.0.0+" + ".".join(part.strip("-") for part in commit.groups() if part)
    if not found:
        return described
    number, after, commit_id, dirty = found.groups()
    local = ".".join(part for part in (commit_id and "g" + commit_id, dirty and "dirty") if part)
    return number + (f".post{after}" if after else "") + (f"+{local}" if local else "")


def build_version() -> str:
    """Return the version of a package that is built now: FUMEHOOD_VERSION, or that of the working tree."""
    described = os.environ.get("FUMEHOOD_VERSION")
    if not described:
        command = ["git", "describe", "--tags", "--always", "--dirty"]
        folder = Path(__file__).parent
        described = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()
    return public(described)
