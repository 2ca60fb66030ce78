"""Tools: functions of the client that code in a sandbox calls."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Literal

import anyio
import pytest

from fumehood import AsyncSandbox, Client, Sandbox, Tool
from fumehood._tools import schema_of

if TYPE_CHECKING:
    from conftest import Server

pytestmark = pytest.mark.smoke


def search(query: str, limit: int = 3) -> list[str]:
    """Search the web."""
    if limit == 0:
        raise LookupError("nothing found")
    return [f"{query} {n}" for n in range(limit)]


def test_call(sandbox: Sandbox) -> None:
    answer = sandbox.run("print(search('cats', limit=2), search.__doc__)", tools=[search])
    assert answer.stdout == "['cats 0', 'cats 1'] Search the web.\n"
    answer = sandbox.run("try: search('x', limit=0)\nexcept ToolError as e: print(e)", tools=[search])
    assert answer.stdout == "LookupError: nothing found\n"
    answer = sandbox.run("search('x', limit='many')", tools=[search])
    assert answer.exception
    assert answer.exception.name == "ToolError"
    assert "limit" in answer.exception.value


def test_bad_tools(sandbox: Sandbox) -> None:
    hangs = threading.Event()
    code = "for f in large, odd, hang:\n  try: f()\n  except ToolError as e: print(e)"
    tools = {"large": lambda: "x" * (9 << 20), "odd": object, "hang": hangs.wait}
    started = time.monotonic()
    answer = sandbox.run(code, tools=tools, call_limits={"answer_s": 0.5})
    hangs.set()
    assert answer.stdout.splitlines() == [
        "ValueError: the tool returned 9437186 bytes; an answer has at most 8388608",
        "TypeError: the tool returned a value that is not JSON: object is not",
        "TimeoutError: no answer in 500ms",
    ]
    assert time.monotonic() - started < 20


def test_calls_at_a_time(sandbox: Sandbox) -> None:
    meet = threading.Barrier(4, timeout=20)
    code = "from concurrent.futures import ThreadPoolExecutor as P\nwith P() as p: print(sorted(p.map(f, range(4))))"

    def f(n: int) -> int:
        meet.wait()
        return n * n

    assert sandbox.run(code, tools=[f]).stdout == "[0, 1, 4, 9]\n"


def test_background(sandbox: Sandbox) -> None:
    assert sandbox.start("search('a')[0]", tools=[search]).wait().text == "'a 0'"
    run = sandbox.start("search('b')[0]", tools=[search])
    other = sandbox.find_run(run.id)
    assert other.wait(tools=[search]).text == "'b 0'"
    assert [e.name for e in other.events() if e.name in ("call", "answered")] == ["call", "answered"]


def test_context(sandbox: Sandbox) -> None:
    """A context has tools for all its runs; a run can have more."""
    context = sandbox.context("work", tools=[search], call_limits={"calls": 1})
    assert context.run("search('a')[0]").text == "'a 0'"
    both = context.run("search('b')[0] + more()", tools={"more": lambda: "!"}, call_limits={"calls": 2})
    assert both.text == "'b 0!'"
    assert context.start("search('c')[0]").wait().text == "'c 0'"
    again = sandbox.context("work", tools={"search": lambda query: [query]})
    assert again.run("search('d')[0]").text == "'d'"
    unanswered = sandbox.run("search('e')", context="work", call_limits={"answer_s": 0.1})
    assert "TimeoutError" in unanswered.exception.value


def test_fresh(server: Server) -> None:
    with Client(server.address) as client:
        answer = client.run("x = search('a')\nx[0], len(x)", tools=[search], env={"A": "1"}, files={"f": "x"})
        assert (answer.ok, answer.text, answer.hint) == (True, "('a 0', 3)", None)
        answer = client.run("print(open('f').read()); search('x', limit=0)", tools=[search], files={"f": "x"})
        assert (answer.status, answer.stdout, answer.exception.name) == ("failed", "x\n", "ToolError")
        answer = client.run("search('x')\nwhile True: pass", tools=[search], timeout_s=1)
        assert answer.status == "timeout"


def test_two_clients(sandbox: Sandbox) -> None:
    """Both answer each call; one answer counts, and the other client notices nothing."""
    run = sandbox.start("print([f(n) for n in range(20)])", tools={"f": lambda n: n})
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(run.wait().stdout)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [str(list(range(20))) + "\n"] * 2


def test_async(server: Server) -> None:
    async def main() -> None:
        async def fetch(url: str) -> str:
            await anyio.sleep(0)
            return url.upper()

        async with await AsyncSandbox(server=server.address) as sandbox:
            answer = await sandbox.run("fetch('a') + name()", tools=[fetch, Tool("name", lambda: "b")])
            assert answer.text == "'Ab'"

    for backend in "asyncio", "trio":
        anyio.run(main, backend=backend)


def test_schema() -> None:
    def f(a: str, b: int | None, /, c: Literal["x", "y"], *rest: int, d: list[float] = (), **more: bool) -> None: ...

    assert schema_of(f) == {
        "type": "object",
        "properties": {
            "a": {"type": "string"},
            "b": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "c": {"enum": ["x", "y"]},
            "d": {"type": "array", "items": {"type": "number"}},
        },
        "required": ["a", "b", "c"],
        "additionalProperties": True,
    }
