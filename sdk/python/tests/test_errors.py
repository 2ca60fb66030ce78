from __future__ import annotations

import io
import json
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

import fumehood
from conftest import PROGRAM, Server, remove_all
from fumehood import Client, Sandbox

MIB = 1 << 20


@pytest.mark.smoke
def test_unknown_sandbox(server, sandbox):
    with Client(server.address) as client:
        with pytest.raises(fumehood.NotFound, match="nobody") as unknown:
            client.get("nobody")
        assert unknown.value.problem.status == 404
        gone = client.create()
        gone.remove()
        gone.remove()
        with pytest.raises(fumehood.NotFound, match="removed"):
            gone.run("1")
    with pytest.raises(fumehood.NotFound):
        sandbox.files.read("none.txt")
    assert not sandbox.files.exists("none.txt")


def test_wrong_requests(server, sandbox):
    with pytest.raises(fumehood.InvalidRequest) as refused:
        sandbox.run("1", timeout_s=-1)
    assert (refused.value.param, refused.value.kind) == ("limits.timeout_s", "invalid")
    assert "leave it out for the default" in str(refused.value)
    with pytest.raises((fumehood.InvalidRequest, fumehood.Incompatible), match="unknown field"):  # as the versions are
        sandbox.run("1", colour="red")
    with pytest.raises(fumehood.InvalidRequest, match="is not the address of a server"):
        Client("localhost:7070")
    with pytest.raises(fumehood.InvalidRequest) as refused:
        Client("http://me:s3cret@localhost:7070")
    assert "s3cret" not in str(refused.value)
    with pytest.raises(fumehood.InvalidRequest, match="cobol"), Client(server.address) as client:
        client.run("1", language="cobol")


def test_too_large(tmp_path):
    server = Server(tmp_path, "--max-file", "1MiB")
    try:
        with Sandbox(server=server.address) as sandbox:
            with pytest.raises(fumehood.TooLarge, match="code: 11MiB is over the limit of 10MiB"):
                sandbox.run("#" * (11 * MIB))
            with pytest.raises(fumehood.TooLarge):
                sandbox.run("1", files={"a": bytes(50 * MIB)})
            with pytest.raises(fumehood.TooLarge):
                sandbox.files.write("a", bytes(2 * MIB))
            with pytest.raises(fumehood.TooLarge):
                sandbox.files.write("a", io.BytesIO(bytes(2 * MIB)))
            assert sandbox.run("1").text == "1"
    finally:
        remove_all(server)
        server.end()


def test_wrong_key(tmp_path):
    keys = tmp_path / "keys"
    made = subprocess.run(
        [PROGRAM, "keys", "create", "alice", "--file", keys], check=True, capture_output=True, text=True
    )
    server = Server(tmp_path, "--api-key-file", str(keys))
    try:
        for key in (None, "wrong"):
            with pytest.raises(fumehood.Unauthorized) as refused, Client(server.address, key) as client:
                client.sandboxes()
            assert refused.value.hint
        with Client(server.address, made.stdout.split()[-1]) as client:
            assert client.sandboxes() == []
    finally:
        server.end()


def test_no_server(tmp_path):
    for address in (f"unix:{tmp_path}/none", "http://127.0.0.1:1"):
        with pytest.raises(fumehood.Unavailable, match="no Fumehood server is reachable") as refused:
            Sandbox(server=address)
        assert "fumehood serve" in refused.value.hint


Answers = dict[str, tuple[int, object]]


@pytest.fixture
def other() -> Iterator[Callable[[Answers], str]]:
    """Start a server that is not of this version: it has one answer for each path."""
    servers = []

    def start(answers: Answers) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.rfile.read(int(self.headers.get("content-length", 0)))
                status, body = answers.get(self.path, (404, "<html>"))
                content = (body if isinstance(body, str) else json.dumps(body)).encode()
                self.send_response(status)
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_POST = do_GET  # noqa: N815

            def log_message(self, *_: object) -> None: ...

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def test_other_programs(other):
    with pytest.raises(fumehood.Unavailable, match="not an answer of Fumehood"):
        Sandbox(server=other({}))
    with pytest.raises(fumehood.Unavailable, match="is not JSON"):
        Sandbox(server=other({"/v1/sandboxes": (200, "<html>")}))
    with (
        Client(other({"/v1/run": (200, "")})) as client,
        pytest.raises(fumehood.Unavailable, match="no header fumehood-run-id"),
    ):
        client.run("f()", tools={"f": print})


def problem(detail: str, kind: str = "invalid", status: int = 400) -> tuple[int, object]:
    return status, {"type": "about:blank", "title": "x", "status": status, "detail": detail, "kind": kind, "hint": None}


OLDER = {
    "a field it does not know": problem('/new: unknown field "new"'),
    "a path it does not know": problem("there is nothing at this path", "not_found", 404),
    "an answer without a field": (200, {"name": "x"}),
}


@pytest.mark.parametrize("answer", OLDER.values(), ids=OLDER)
def test_versions(other, monkeypatch, answer):
    for module in ("_version", "_wire"):
        monkeypatch.setattr(f"fumehood.{module}.version", lambda: "2.0")
    address = other({"/v1/sandboxes": answer, "/v1/capabilities": (200, {"version": "v1.0"})})
    with pytest.raises(fumehood.Incompatible, match=r"the server has version v1\.0, this client 2\.0") as refused:
        Sandbox(server=address)
    assert refused.value.hint == "install the same version of both"


def test_newer_server(other):
    answer = {
        "status": "new",
        "colour": "red",
        "usage": {"wall_ms": 1.5, "cpu_ms": 1, "peak_memory_bytes": 1, "new": 1},
        "timings": {},
    }
    answer |= dict.fromkeys(("signal", "exception", "hint", "exit_code"))
    answer |= dict.fromkeys(("id", "stdout", "stderr"), "") | {"files": [], "results": []}
    with Client(other({"/v1/run": (200, answer)})) as client:
        with pytest.raises(fumehood.Unavailable, match=r"timings: create_ms, .* is missing"):
            client.run("1")
        answer["timings"] = dict.fromkeys(("create_ms", "files_ms", "queue_ms", "run_ms", "upload_ms"), 0)
        read = client.run("1")
        assert (read.status, read.ok, read.usage.wall_ms) == ("new", False, 1.5)


def test_environment(server, monkeypatch):
    monkeypatch.setenv("FUMEHOOD_SERVER", server.address)
    with Sandbox() as sandbox:
        assert sandbox.run("1").text == "1"
    assert os.environ["FUMEHOOD_SERVER"] == server.address
