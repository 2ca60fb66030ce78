"""The server that a program starts for itself."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fumehood import InvalidRequest, NotFound, Sandbox, Unavailable, _server

ENDS = """
from fumehood import Sandbox, _server
with Sandbox("kept") as sandbox:
    assert sandbox.run("6 * 7").text == "42"
with Sandbox("kept") as sandbox:
    print(_server._server._process.pid, _server._server._folder, flush=True)
    input()
"""


@pytest.mark.smoke
@pytest.mark.parametrize("killed", [False, True])
def test_the_server_ends_with_the_program(killed):
    environment = {k: v for k, v in os.environ.items() if k != "FUMEHOOD_SERVER"}
    program = subprocess.Popen(
        [sys.executable, "-c", ENDS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )
    pid, folder = program.stdout.readline().split()
    server = os.pidfd_open(int(pid))
    if killed:
        program.kill()
    program.communicate("\n")
    assert program.returncode == (-signal.SIGKILL if killed else 0)
    wait_for(server)
    assert killed or not Path(folder).exists()


def wait_for(process: int) -> None:
    """Wait for the end of a process by its descriptor."""
    ended, _, _ = select.select([process], [], [], 30)
    os.close(process)
    assert ended


def test_a_missing_program(monkeypatch):
    monkeypatch.delenv("FUMEHOOD_SERVER", raising=False)
    monkeypatch.setattr(_server, "_server", None)
    monkeypatch.setenv("FUMEHOOD_PROGRAM", "/none")
    with pytest.raises(Unavailable, match="cannot start fumehood") as refused:
        Sandbox()
    assert "FUMEHOOD_PROGRAM" in refused.value.hint
    monkeypatch.setenv("FUMEHOOD_PROGRAM", "/bin/false")
    with pytest.raises(Unavailable, match="did not start"):
        Sandbox()


def test_one_directory(tmp_path):
    """Code changes the directory that is its workspace, and nothing else of the host."""
    with Sandbox(workspace=tmp_path) as s:
        s.files.write("a.txt", "1")
        assert s.exec("cat a.txt; echo 2 > b.txt; ln -s /etc/shadow link").stdout == "1"
        assert (tmp_path / "b.txt").read_text() == "2\n"
        for outside in ("../x", "a/../../x"):
            with pytest.raises(InvalidRequest):
                s.files.read(outside)
        with pytest.raises(NotFound):
            s.files.read("link")
        s.files.clean(force=True)
        assert not list(tmp_path.iterdir())
    for protected in ("/", "/etc", "/usr", tmp_path / "nowhere"):
        with pytest.raises(InvalidRequest):
            Sandbox(workspace=protected)


def test_import_is_quick():
    """The import of the client leaves what is slow to import to the first connection."""
    code = "import sys, fumehood; fumehood.Sandbox; print([m for m in ('httpx', 'anyio') if m in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "[]\n"
