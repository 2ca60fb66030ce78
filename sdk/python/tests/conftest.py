"""A server of this source for the tests. FUMEHOOD_PROGRAM names the program, by default build/bin/fumehood."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from fumehood import Client, Sandbox

REPOSITORY = Path(__file__).resolve().parents[3]
PROGRAM = Path(os.environ.setdefault("FUMEHOOD_PROGRAM", str(REPOSITORY / "build" / "bin" / "fumehood")))
START_LINE = "listening on "

if os.getuid() != 0:  # an ordinary user may have no control groups
    os.environ.setdefault("FUMEHOOD_ALLOW_UNENFORCED", "memory")


class Server:
    """A server that a test can end and start again."""

    def __init__(self, folder: Path, *flags: str) -> None:
        self.state = folder / "state"
        self.listen = f"unix:{folder}/s"
        self.flags = flags
        self.process: subprocess.Popen[str] | None = None
        self.start()

    def start(self) -> None:
        command = [PROGRAM, "serve", "--state-dir", self.state, "--no-local-socket", "--listen", self.listen]
        self.process = subprocess.Popen([*command, *self.flags], stderr=subprocess.PIPE, text=True)
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


def remove_all(server: Server) -> None:
    """Remove the sandboxes, which would outlive the server."""
    with Client(server.address) as client:
        for info in client.sandboxes():
            client.get(info.id).remove()


@pytest.fixture
def sandbox(server: Server) -> Iterator[Sandbox]:
    with Sandbox(server=server.address) as sandbox:
        yield sandbox
