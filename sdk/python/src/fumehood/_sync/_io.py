"""The input and output of the synchronous clients. _async/_io.py is the other half."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

if TYPE_CHECKING:
    import httpx
else:
    from fumehood import _http as httpx

T = TypeVar("T")

PIECE = 1 << 16

sleep = time.sleep


def open_client(socket: str | None, **options: Any) -> httpx.Client:
    """Return an HTTP client; socket is the path of a unix socket."""
    transport = httpx.HTTPTransport(uds=socket) if socket else None
    return httpx.Client(transport=transport, **options)


def in_thread(function: Callable[[], T]) -> T:
    """Call a function that blocks."""
    return function()


def call(function: Callable[..., Any], first: list[Any], rest: dict[str, Any]) -> Any:
    """Call a function."""
    return function(*first, **rest)


@contextmanager
def tasks() -> Iterator[Callable[..., object]]:
    """Give a function that starts threads. A tool that hangs keeps its thread, and nothing waits for it."""

    def start(function: Callable[..., object], *arguments: Any) -> None:
        run = copy_context().run
        threading.Thread(target=run, args=(function, *arguments), name="fumehood tool", daemon=True).start()

    yield start


def shielded() -> AbstractContextManager[object]:
    """Return a context. Nothing cancels synchronous code."""
    return nullcontext()


def pieces(file: BinaryIO) -> Iterator[bytes]:
    """Read a file in pieces."""
    while piece := file.read(PIECE):
        yield piece
