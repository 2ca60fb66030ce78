"""Reads the events of runs, and collects them into answers. No I/O."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, cast

from fumehood._arguments import Output
from fumehood._decode import decode
from fumehood._errors import error_of
from fumehood._models._calls import AnsweredEvent, CallEvent
from fumehood._models._runs import (
    Answer,
    CodeException,
    Done,
    OutputPiece,
    Problem,
    Progress,
    Result,
    Started,
)
from fumehood._models._runs import Output as OutputInfo
from fumehood._output import OutputText
from fumehood._tools import Tool, tools_of
from fumehood._wire import body_of

RawEvent = tuple[int, str, dict[str, Any]]  # id, name, data

MAX_EVENT = 256 << 20  # bytes; the server sends shorter ones

MODELS: dict[str, type[Any]] = {
    "started": Started,
    "progress": Progress,
    "stdout": OutputPiece,
    "stderr": OutputPiece,
    "result": Result,
    "exception": CodeException,
    "call": CallEvent,
    "answered": AnsweredEvent,
    "done": Done,
    "problem": Problem,
}


class Event(NamedTuple):
    """One event of a run. Its data is None if this client does not know the name."""

    id: int
    """Counts from 1. A stream can continue after any id."""

    name: str
    """started, progress, stdout, stderr, result, exception, call, answered, or at the end done or problem."""

    data: Started | Progress | OutputPiece | Result | CodeException | CallEvent | AnsweredEvent | Done | Problem | None

    raw: dict[str, Any]
    """The data as the server sent it."""

    @property
    def last(self) -> bool:
        """Whether it is the last event of its run."""
        return self.name in ("done", "problem")

    @property
    def text(self) -> str:
        """The text of a progress, stdout or stderr event; empty for others."""
        return self.data.text if isinstance(self.data, (Progress, OutputPiece)) else ""


class EventParser:
    """Splits a stream of server-sent events (HTML Living Standard, section 9.2) into events."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []  # of an event that is not complete
        self._size = 0

    def feed(self, chunk: bytes) -> list[RawEvent]:
        """Return the id, name and data of the events that a chunk completes.

        It raises ValueError for a stream that is not the server's.
        """
        end = self._rest[-1][-1:] if self._rest else b""
        self._rest.append(chunk)
        if b"\n\n" not in end + chunk:  # a large event arrives in many chunks
            self._size += len(chunk)
            if self._size > MAX_EVENT:
                raise ValueError(f"an event is longer than {MAX_EVENT} bytes")
            return []
        *blocks, rest = b"".join(self._rest).split(b"\n\n")
        self._rest, self._size = ([rest] if rest else []), len(rest)
        events = (parse_block(block) for block in blocks)
        return [event for event in events if event]


def parse_block(block: bytes) -> RawEvent | None:
    """Return the event in the lines of a block, or None for a comment."""
    number, name, data = 0, "", b""
    for line in block.split(b"\n"):
        field, _, value = line.partition(b":")
        value = value[1:] if value[:1] == b" " else value
        if field == b"id":
            number = int(value)
        elif field == b"event":
            name = value.decode()
        elif field == b"data":
            data += value
    if not name:
        return None
    content = json.loads(data)
    if not isinstance(content, dict):
        raise ValueError("the data of an event is not an object")
    return number, name, content


def event_of(number: int, name: str, raw: dict[str, Any]) -> Event:
    """Return an event with its data decoded."""
    model = MODELS.get(name)
    return Event(number, name, decode(model, raw) if model else None, raw)


def split(arguments: Mapping[str, Any]) -> tuple[Output, dict[str, Tool], dict[str, Any]]:
    """Return the callbacks and the tools among the arguments of a run, and the body of its request."""
    callbacks = {name: value for name, value in arguments.items() if name in Output.__annotations__}
    tools = tools_of(arguments.get("tools"))
    rest = {name: value for name, value in arguments.items() if name not in callbacks and name != "tools"}
    body = body_of({**rest, "tools": [tool.request() for tool in tools.values()] or None})
    return cast("Output", callbacks), tools, body


class Collector:
    """Collects the events of a run into its answer."""

    def __init__(self, callbacks: Output) -> None:
        self._callbacks = callbacks
        self._streams = {
            "stdout": OutputText(callbacks.get("on_stdout")),
            "stderr": OutputText(callbacks.get("on_stderr")),
        }
        self._results: list[dict[str, Any]] = []
        self._exception: dict[str, Any] | None = None
        self.last = 0  # id of the last event
        self.on_call: Callable[[dict[str, Any]], object] | None = None

    def take(self, number: int, name: str, raw: dict[str, Any]) -> Answer | None:
        """Take the next event, and return the answer with the last one. It raises the error of a problem."""
        if number <= self.last:  # a stream that continues repeats nothing, but a proxy may
            return None
        self.last = number
        if name in self._streams:
            self._streams[name].take(decode(OutputPiece, raw))
        elif name == "result":
            self._results.append(raw)
            self._call("on_result", lambda: decode(Result, raw))
        elif name == "exception":
            self._exception = raw
        elif name == "call" and self.on_call:
            self.on_call(raw)
        elif name == "progress":
            self._call("on_progress", lambda: decode(Progress, raw).text)
        elif name == "problem":
            raise error_of(decode(Problem, raw))
        elif name == "done":
            return self._answer(raw)
        return None

    def _call(self, name: Literal["on_result", "on_progress"], value: Callable[[], Any]) -> None:
        callback: Callable[[Any], object] | None = self._callbacks.get(name)
        if callback:
            callback(value())

    def _answer(self, done: dict[str, Any]) -> Answer:
        (stdout, out), (stderr, err) = self._streams["stdout"].render(), self._streams["stderr"].render()
        whole = {**done, "stdout": stdout, "stderr": stderr, "results": self._results}
        if self._exception and done.get("exception"):
            whole["exception"] = self._exception  # done has a shortened one
        answer = decode(Answer, whole)
        if any(details.truncated or details.base64 is not None for details in (out, err)):
            answer.__dict__["output"] = OutputInfo(stdout=out, stderr=err)
        return answer
