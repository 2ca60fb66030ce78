"""Finds the program fumehood."""

from __future__ import annotations

import os
import shutil
import sysconfig
from pathlib import Path

from fumehood._errors import Unavailable

NAME = "fumehood"
VARIABLE = "FUMEHOOD_PROGRAM"


def find() -> str:
    """Return the path of the program: FUMEHOOD_PROGRAM, that of this package's wheel, or that on PATH."""
    named = os.environ.get(VARIABLE)
    if named:
        return named
    for folder in (sysconfig.get_path("scripts"), sysconfig.get_path("scripts", f"{os.name}_user")):
        program = Path(folder) / NAME
        if program.is_file() and os.access(program, os.X_OK):
            return str(program)
    found = shutil.which(NAME)
    if found:
        return found
    raise Unavailable(
        "the program fumehood is not installed",
        "install it on Linux, or name a server: Sandbox(server=...) or FUMEHOOD_SERVER",
    )
