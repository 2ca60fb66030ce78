"""The build of the wheels, for hatchling.

Every wheel gets the modules that tools/ generate. With FUMEHOOD_WHEEL_PROGRAM, the path of a Linux program, a wheel for
its processor also installs that program, as the wheels of ruff and uv do.
"""

from __future__ import annotations

import os
import runpy
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).resolve().parent

# By e_machine of ELF (/usr/include/elf.h). The program is static, so it runs with any C library.
PLATFORMS = {
    62: "manylinux_2_17_x86_64.musllinux_1_1_x86_64",
    183: "manylinux_2_17_aarch64.musllinux_1_1_aarch64",
}


def version() -> str:
    """Return the version of the wheel."""
    module = runpy.run_path(str(ROOT / "src" / "fumehood" / "_version.py"))
    build_version: str = module["build_version"]()
    return build_version


def platform_of(program: Path) -> str:
    """Return the platform tag of a program."""
    with program.open("rb") as file:
        head = file.read(20)
    (machine,) = struct.unpack_from("<H", head, 18)
    if not head.startswith(b"\x7fELF") or machine not in PLATFORMS:
        raise ValueError(f"{program} is not a Linux program for x86-64 or arm64")
    return PLATFORMS[machine]


class CustomBuildHook(BuildHookInterface[Any]):
    """Generates modules, and adds the program to a platform wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Prepare one wheel. hatchling calls it."""
        for tool in ("models.py", "sync.py"):
            subprocess.run([sys.executable, ROOT / "tools" / tool], check=True)
        program = os.environ.get("FUMEHOOD_WHEEL_PROGRAM")
        if program:
            build_data["shared_scripts"] = {program: "fumehood"}
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{platform_of(Path(program))}"
