"""The input and output of the synchronous clients. _async/_io.py is the other half."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, BinaryIO, TypeVar

import httpx

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


def shielded() -> AbstractContextManager[object]:
    """Return a context. Nothing cancels synchronous code."""
    return nullcontext()


def pieces(file: BinaryIO) -> Iterator[bytes]:
    """Read a file in pieces."""
    while piece := file.read(PIECE):
        yield piece
