"""A server of this source for the tests. FUMEHOOD_PROGRAM names the program, by default build/bin/fumehood."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib import metadata
from pathlib import Path
from zipfile import ZipFile

import pytest

from fumehood import Client, Sandbox

REPOSITORY = Path(__file__).resolve().parents[3]
PROGRAM = Path(os.environ.setdefault("FUMEHOOD_PROGRAM", str(REPOSITORY / "build" / "bin" / "fumehood")))
START_LINE = "listening on "

if os.getuid() != 0:  # an ordinary user may have no control groups
    os.environ.setdefault("FUMEHOOD_ALLOW_UNENFORCED", "memory")


# Tests of langchain-tests 1.1.9 that contradict BaseSandbox of Deep Agents 0.7: glob returns absolute paths there, and
# write replaces a file. scripts/python.sh runs the suite with Deep Agents 0.6 too.
CONTRADICTED = {
    "test_glob",
    "test_glob_basic_pattern",
    "test_glob_hidden_files_explicitly",
    "test_glob_with_character_class",
    "test_glob_with_directories",
    "test_glob_with_question_mark",
    "test_write_existing_file_fails",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        suite = item.path.name == "test_langchain_suite.py" and not metadata.version("deepagents").startswith("0.6.")
        if suite and item.name in CONTRADICTED:
            item.add_marker(pytest.mark.xfail(strict=True, reason="BaseSandbox of Deep Agents 0.7 contradicts it"))


class Server:
    """A server that a test can end and start again."""

    def __init__(self, folder: Path, *flags: str, prefix: Sequence[str] = ()) -> None:
        self.state = folder / "state"
        self.listen = f"unix:{folder}/s"
        self.flags = flags
        self.prefix = prefix
        self.process: subprocess.Popen[str] | None = None
        self.start()

    def start(self) -> None:
        command = [PROGRAM, "serve", "--state-dir", self.state, "--no-local-socket", "--listen", self.listen]
        self.process = subprocess.Popen([*self.prefix, *command, *self.flags], stderr=subprocess.PIPE, text=True)
        lines = []
        for line in self.process.stderr:
            lines.append(line)
            if START_LINE in line:
                return
        pytest.fail("the server did not start:\n" + "".join(lines))

    @property
    def address(self) -> str:
        return self.listen

    def end(self, *, kill: bool = False) -> None:
        (self.process.kill if kill else self.process.terminate)()
        self.process.wait()
        self.process.stderr.close()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("server"))
    yield server
    remove_all(server)
    server.end()


INDEX = "10.99.0.1"  # an address that only the server's network has: no rule opens loopback


@pytest.fixture
def indexed(tmp_path) -> Iterator[Callable[..., Server]]:
    """Start a server in its own network, with an index that has the packages of these names."""
    if os.getuid() != 0:
        pytest.skip("a network of its own needs root")
    folder = tmp_path / "index"
    started = []

    def start(*names: str) -> Server:
        for name in names:
            write_wheel(folder / name, name)
        alone = ["unshare", "-n", "sh", "-c", f'ip addr add {INDEX}/32 dev lo && ip link set lo up && exec "$0" "$@"']
        flags = ["--package-index", f"python=http://{INDEX}:8000", "--package-host", INDEX]
        server = Server(tmp_path, *flags, "--package-cache", str(tmp_path / "packages"), prefix=alone)
        serve = [sys.executable, "-m", "http.server", "--bind", INDEX, "--directory", folder, "8000"]
        with (tmp_path / "index.log").open("w") as log:
            index = subprocess.Popen(["nsenter", "-n", "-t", str(server.process.pid), *serve], stdout=log, stderr=log)
        started.append((server, index))
        return server

    yield start
    for server, index in started:
        index.kill()
        index.wait()
        remove_all(server)
        server.end()


def write_wheel(folder: Path, name: str) -> None:
    """Write a wheel with a package that has a module part and NAME."""
    folder.mkdir(parents=True)
    info = f"{name}-1.0.dist-info"
    with ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{name}/__init__.py", f"NAME = {name!r}\n")
        wheel.writestr(f"{name}/part.py", "")
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")


def remove_all(server: Server) -> None:
    """Remove the sandboxes, which would outlive the server."""
    with Client(server.address) as client:
        for info in client.sandboxes():
            client.get(info.id).remove()


@pytest.fixture
def sandbox(server: Server) -> Iterator[Sandbox]:
    with Sandbox(server=server.address) as sandbox:
        yield sandbox
