"""Answers the calls of tools."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias

from fumehood._async import _io
from fumehood._errors import AlreadyExists, FumehoodError, NotFound, TooLarge, Unavailable
from fumehood._tools import answer_of, arguments_of, failure_of, too_large
from fumehood._wire import Backoff

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fumehood._async._transport import AsyncTransport
    from fumehood._tools import Tool

Answering: TypeAlias = "Callable[[AsyncTransport, str], AsyncCalls]"  # for the path of a run

RETRY_SECONDS = 60.0  # how long an answer is sent again to a server that restarts


class AsyncCalls:
    """Calls the tools of a run as its code asks for them, each in its own task or thread."""

    def __init__(
        self, transport: AsyncTransport, path: str, tools: Mapping[str, Tool], start: Callable[..., object]
    ) -> None:
        self._transport = transport
        self._path = path
        self._tools = tools
        self._start = start

    def take(self, call: dict[str, Any]) -> None:
        """Take a call event."""
        tool = self._tools.get(call["name"])
        if tool:  # else another client has it
            self._start(self._answer, tool, call)

    async def _answer(self, tool: Tool, call: dict[str, Any]) -> None:
        try:
            first, rest = arguments_of(tool.function, call["arguments"])
            answer = answer_of(await _io.call(tool.function, first, rest))
        except Exception as e:
            answer = failure_of(e)
        path = f"{self._path}/calls/{call['call']}"
        with suppress(NotFound, AlreadyExists, FumehoodError):  # it ended, or another client was first
            try:
                await self._send(path, answer)
            except TooLarge:
                await self._send(path, too_large(len(str(answer))))

    async def _send(self, path: str, answer: dict[str, Any]) -> None:
        backoff = Backoff(RETRY_SECONDS)
        while True:
            try:
                await self._transport.json("POST", path, json=answer)
                return
            except Unavailable as e:
                wait = backoff.next()
                if wait == math.inf or e.problem:
                    raise
                await _io.sleep(wait)
