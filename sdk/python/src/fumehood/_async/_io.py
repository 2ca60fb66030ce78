"""The input and output of the asynchronous clients. _sync/_io.py is the other half."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

import anyio
import anyio.to_thread

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    import httpx
else:
    from fumehood import _http as httpx

T = TypeVar("T")

PIECE = 1 << 16

sleep = anyio.sleep


def open_client(socket: str | None, **options: Any) -> httpx.AsyncClient:
    """Return an HTTP client; socket is the path of a unix socket."""
    transport = httpx.AsyncHTTPTransport(uds=socket) if socket else None
    return httpx.AsyncClient(transport=transport, **options)


async def in_thread(function: Callable[[], T]) -> T:
    """Call a function that blocks."""
    return await anyio.to_thread.run_sync(function)


async def call(function: Callable[..., Any], first: list[Any], rest: dict[str, Any]) -> Any:
    """Call a function: an asynchronous one in this task, any other in a thread."""
    if inspect.iscoroutinefunction(function):
        return await function(*first, **rest)
    value = await anyio.to_thread.run_sync(lambda: function(*first, **rest), abandon_on_cancel=True)
    return await value if inspect.isawaitable(value) else value


@asynccontextmanager
async def tasks() -> AsyncIterator[Callable[..., object]]:
    """Give a function that starts tasks, which are canceled at the end."""
    failure: Exception | None = None
    async with anyio.create_task_group() as group:
        try:
            yield group.start_soon
        except Exception as e:  # not in a group of exceptions
            failure = e
        group.cancel_scope.cancel()
    if failure:
        raise failure


def shielded() -> AbstractContextManager[object]:
    """Return a context that a cancellation does not interrupt, for at most 10 seconds."""
    return anyio.move_on_after(10, shield=True)


async def pieces(file: BinaryIO) -> AsyncIterator[bytes]:
    """Read a file in pieces."""
    while piece := await in_thread(lambda: file.read(PIECE)):
        yield piece
