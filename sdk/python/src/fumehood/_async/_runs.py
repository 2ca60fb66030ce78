"""Runs in a living sandbox."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from fumehood._async import _io
from fumehood._async._calls import AsyncCalls
from fumehood._errors import FumehoodError, NotFound, Unavailable
from fumehood._events import Collector, Event, event_of, split
from fumehood._models._runs import Answer
from fumehood._models._sandboxes import RunInfo
from fumehood._tools import tools_of
from fumehood._wire import EVENTS, Backoff, run_id, sandbox_path

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from fumehood._arguments import Output
    from fumehood._async._calls import Answering
    from fumehood._async._sandbox import AsyncSandbox
    from fumehood._async._transport import AsyncTransport
    from fumehood._events import RawEvent
    from fumehood._tools import Tool, Tools

RECONNECT_SECONDS = 60.0  # how long a client tries to reach a server that restarts


class AsyncRun:
    """A run in a living sandbox. It continues without its client, and its events can be read any number of times."""

    def __init__(self, transport: AsyncTransport, sandbox: str, id: str) -> None:
        self._transport = transport
        self._sandbox = sandbox
        self.id = id
        self._tools: dict[str, Tool] = {}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} in {self._sandbox}>"

    async def info(self) -> RunInfo:
        """Describe the run: its status, times and exit code."""
        return await self._transport.ask(RunInfo, "GET", self._path())

    async def events(self, after: int = 0) -> AsyncGenerator[Event, None]:
        """Give each event with a higher id than after, until the last one.

        If the connection breaks, it continues after the last event, also while a server restarts.
        """
        async with aclosing(self._follow(after)) as events:
            async for number, name, raw in events:
                yield event_of(number, name, raw)

    async def wait(self, *, tools: Tools | None = None, **callbacks: Unpack[Output]) -> Answer:
        """Wait for the end of the run, and return its answer. The callbacks receive all output from its start.

        Calls of its tools are answered meanwhile: those of start, or here those of these names.
        """
        collector = Collector(callbacks)
        own = tools_of(tools) or self._tools
        if not own:
            return await self._collect(collector)
        async with _io.tasks() as start:
            collector.on_call = AsyncCalls(self._transport, self._path(), own, start).take
            return await self._collect(collector)

    async def _collect(self, collector: Collector) -> Answer:
        answer = None
        async with aclosing(self._follow(collector.last)) as events:
            async for event in events:
                answer = collector.take(*event)
        assert answer, "the events of a run end with its last event"
        return answer

    async def _follow(self, after: int) -> AsyncGenerator[RawEvent, None]:
        backoff = Backoff(RECONNECT_SECONDS)
        ended = False
        while True:
            cause = Unavailable("the stream of events broke off")
            try:
                query = {"after": after}
                async with (
                    self._transport.stream("GET", self._path("events"), params=query, headers=EVENTS) as response,
                    aclosing(self._transport.events(response)) as events,
                ):
                    async for event in events:
                        after = event[0]
                        backoff.reset()
                        yield event
                        ended = event[1] in ("done", "problem")
            except Unavailable as e:
                cause = e
            if ended:
                return
            wait = backoff.next()
            if wait == math.inf:
                raise cause
            await _io.sleep(wait)

    async def write(self, data: str | bytes, *, eof: bool = False) -> None:
        """Append to the standard input of an interactive run, and close it with eof; or type into its terminal."""
        content = data.encode() if isinstance(data, str) else data
        await self._transport.json("POST", self._path("stdin"), params={"eof": "1"} if eof else None, content=content)

    async def resize(self, rows: int, columns: int) -> None:
        """Change the size of the terminal of a command that has one."""
        await self._transport.json("POST", self._path("terminal"), json={"rows": rows, "columns": columns})

    async def signal(self, signal: str | int) -> None:
        """Send a signal, such as SIGTERM, to a command. Code in a context accepts only SIGINT."""
        await self._transport.json("POST", self._path("signal"), json={"signal": signal})

    async def interrupt(self) -> None:
        """Interrupt the run. Code in a context keeps its variables."""
        await self.signal("SIGINT")

    async def cancel(self) -> None:
        """End the run, and wait for its end. It is no error if the run has ended already."""
        with suppress(NotFound):
            await self._transport.json("DELETE", self._path())

    def _path(self, *steps: str) -> str:
        return sandbox_path(self._sandbox, "runs", self.id, *steps)


async def run_to_end(
    sandbox: AsyncSandbox, arguments: dict[str, Any], more: Mapping[str, Tool] | None = None
) -> Answer:
    """Run code or a command, and return its answer. It survives a restart of the server.

    Calls of more tools, which the context has, are answered too.
    If the caller gives up, by an exception of a callback, a cancellation or Ctrl-C, the run is canceled.
    """
    callbacks, own, body = split(arguments)
    tools = {**(more or {}), **own}
    if body.get("return_files") and not tools:  # the API has them only without a stream
        path = sandbox_path(sandbox.id, "run")
        return await sandbox._transport.ask(Answer, "POST", path, json=body, timeout=None)
    collector = Collector(callbacks)
    if not tools:
        return await stream_to_end(sandbox, collector, body)
    async with _io.tasks() as start:
        answering = partial(AsyncCalls, tools=tools, start=start)
        return await stream_to_end(sandbox, collector, body, answering)


async def stream_to_end(
    sandbox: AsyncSandbox,
    collector: Collector,
    body: dict[str, Any],
    answering: Answering | None = None,
) -> Answer:
    """Run to the end, and collect the events."""
    transport, path, run = sandbox._transport, sandbox_path(sandbox.id, "run"), None
    try:
        try:
            async with transport.stream("POST", path, json=body, headers=EVENTS) as response:
                run = sandbox.find_run(run_id(response.headers))
                if answering:
                    collector.on_call = answering(transport, run._path()).take
                answer = await transport.collect(response, collector)
                if answer:
                    return answer
        except Unavailable as e:
            if run is None or e.problem:  # not the connection: the run failed
                raise
        return await run._collect(collector)
    except FumehoodError:
        raise
    except BaseException:
        if run is not None:
            with _io.shielded():
                await give_up(run)
        raise


async def give_up(run: AsyncRun) -> None:
    """Cancel a run that nobody waits for."""
    with suppress(FumehoodError):  # else it ends at its time limit
        await run.cancel()
