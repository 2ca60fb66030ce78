"""Streams continue after a restart of the server."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from conftest import Server, remove_all
from fumehood import AsyncSandbox, Sandbox

COUNT = 60
CODE = f"""
import time
for i in range({COUNT}):
    print(i)
    time.sleep(0.02)
i
"""
WHOLE = "".join(f"{i}\n" for i in range(COUNT))


@pytest.fixture
def restarted(tmp_path) -> Iterator[Server]:
    server = Server(tmp_path)
    yield server
    remove_all(server)
    server.end()


def test_a_run_survives_restarts(restarted):
    def restart() -> None:
        restarted.end(kill=True)
        restarted.start()

    threads = []
    pieces = []

    def on_stdout(text: str) -> None:
        pieces.append(text)
        if any(text.startswith(start) for start in ("10\n", "30\n")):
            threads.append(threading.Thread(target=restart))
            threads[-1].start()

    with Sandbox(server=restarted.address) as sandbox:
        answer = sandbox.run(CODE, on_stdout=on_stdout)
        for thread in threads:
            thread.join()
        assert threads
        assert answer.status == "succeeded"
        assert answer.stdout == "".join(pieces) == WHOLE
        assert answer.text == str(COUNT - 1)


def test_followers_survive_a_restart(restarted):
    async def main() -> None:
        async with AsyncSandbox(server=restarted.address) as sandbox:
            run = await sandbox.start(CODE)
            ids, text = [], ""
            async for event in run.events():
                ids.append(event.id)
                if event.name == "stdout":
                    text += event.text
                if len(ids) == 10:
                    restarted.end(kill=True)
                    await asyncio.to_thread(restarted.start)
            assert text == WHOLE
            assert ids == list(range(1, len(ids) + 1))
            assert (await run.wait()).stdout == WHOLE

    asyncio.run(main())


def test_calls_survive_restarts(restarted):
    """The server is killed while calls wait: each gets its answer once, and the code notices nothing."""
    seen = []

    def echo(n: int, text: str) -> str:
        seen.append(n)
        if n in (3, 7):
            restarted.end(kill=True)
            restarted.start()
        return text

    code = "for i in range(10):\n t = str(i) * 300_000\n assert echo(i, t) == t\ni"
    with Sandbox(server=restarted.address) as sandbox:
        answer = sandbox.run(code, tools=[echo], timeout_s=20)
        assert (answer.status, answer.text, answer.stderr) == ("succeeded", "9", "")
        assert seen == list(range(10))
