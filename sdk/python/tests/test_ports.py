"""Ports and networks of a sandbox."""

from __future__ import annotations

import threading
from contextlib import aclosing
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
import trio

from fumehood import AsyncSandbox, InvalidRequest, Sandbox
from fumehood._sync._transport import Transport

SERVE = ["python3", "-um", "http.server", "8000"]
ECHO = """
import socket
server = socket.create_server(("127.0.0.1", 9000))
print("listens", flush=True)
connection, _ = server.accept()
data = b""
while piece := connection.recv(100):
    data += piece
connection.sendall(data[::-1])
"""


def listens(run) -> None:
    """Wait for the first output."""
    next(event for event in run.events() if event.name == "stdout")


def test_http(sandbox):
    sandbox.files.write("page.txt", "hello")
    listens(sandbox.start(command=SERVE))
    with sandbox.http(8000) as http:
        assert http.get("page.txt").text == "hello"
        assert http.get("/none?x=1").status_code == 404
        assert http.get("page.txt").headers["fumehood-port"] == "8000"


def test_http_to_other_hosts():
    """The key reaches a port, and nothing else to which a link of the program there leads."""
    seen: list[str | None] = []

    class Echo(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.headers["Authorization"])
            self.send_response(204)
            self.end_headers()

    with HTTPServer(("127.0.0.1", 0), Echo) as own, HTTPServer(("127.0.0.1", 0), Echo) as other:
        own_url, other_url = (f"http://127.0.0.1:{server.server_port}/" for server in (own, other))
        for server in own, other:
            threading.Thread(target=server.serve_forever, daemon=True).start()
        with Transport(own_url, "fhx_key").client(own_url + "ports/8000/") as http:
            for url in "page", own_url + "ports/8000/", other_url + "ports/8000/", "../../v1/run", own_url + "v1/run":
                assert http.get(url).status_code == 204
        own.shutdown()
        other.shutdown()
    assert seen == ["Bearer fhx_key", "Bearer fhx_key", None, None, None]


def test_tcp(sandbox):
    listens(sandbox.start(command=["python3", "-c", ECHO]))
    with sandbox.connect(9000) as connection:
        connection.write(b"abc")
        connection.close_write()
        assert connection.read() == b"cba"
        assert connection.read() == b""


def test_trio(server):
    async def main() -> None:
        async with AsyncSandbox(server=server.address) as sandbox:
            run = await sandbox.start(command=["python3", "-c", ECHO])
            async with aclosing(run.events()) as events:
                async for event in events:
                    if event.name == "stdout":  # it listens
                        break
            async with sandbox.connect(9000) as connection:
                await connection.write(b"abc")
                await connection.close_write()
                assert await connection.read() == b"cba"
            assert (await sandbox.run("6 * 7")).text == "42"
            with trio.move_on_after(0.5) as scope:
                await sandbox.exec("sleep 100")
            assert scope.cancelled_caught
            assert [info.status for info in await sandbox.runs()][-1] == "canceled"

    trio.run(main)


def test_network(server):
    with Sandbox(server=server.address, network={"allow": ["a.example.com"]}) as sandbox:
        attempts = []
        follower = threading.Thread(target=lambda: attempts.extend(sandbox.network.follow()))
        follower.start()
        connect = "import socket; socket.create_connection(('192.0.2.1', 81), timeout=5)"
        assert sandbox.run(connect).exception.name in ("ConnectionRefusedError", "PermissionError", "OSError")
        report = sandbox.network.report()
        assert (report.refused, report.policy.allow) == (1, ["a.example.com"])
        rules = sandbox.network.set(allow=["b.example.com"])
        assert rules.allow == ["b.example.com"]
        with pytest.raises(InvalidRequest):
            sandbox.network.set(allow=["b.example.com:nothing"])
        sandbox.remove()
        follower.join()
    assert [(a.address, a.port) for a in attempts] == [("192.0.2.1", 81)]
