"""Connections to servers in a sandbox."""

from __future__ import annotations

import socket
from types import TracebackType
from typing import TYPE_CHECKING, Any

from fumehood._wire import sandbox_path

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    import httpx
    from typing_extensions import Self

    from fumehood._async._transport import AsyncTransport
else:
    from fumehood import _http as httpx

PIECE = 1 << 16
CONNECT_SECONDS = 10.0


class AsyncTunnel:
    """A TCP connection to a port in a sandbox. Each direction closes separately."""

    def __init__(self, transport: AsyncTransport, sandbox: str, port: int) -> None:
        path = sandbox_path(sandbox, "ports", str(port))
        upgrade = {"connection": "upgrade", "upgrade": "tcp"}
        timeout = httpx.Timeout(None, connect=CONNECT_SECONDS)
        answer = transport.stream("GET", path, headers=upgrade, timeout=timeout)
        self._answer: AbstractAsyncContextManager[httpx.Response] = answer
        self._stream: Any = None  # httpcore.AsyncNetworkStream

    async def __aenter__(self) -> Self:
        response = await self._answer.__aenter__()
        self._stream = response.extensions["network_stream"]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stream.aclose()
        await self._answer.__aexit__(None, None, None)

    async def read(self, most: int = PIECE) -> bytes:
        """Return the next bytes, or none after the last."""
        data: bytes = await self._stream.read(most)
        return data

    async def write(self, data: bytes) -> None:
        """Send bytes."""
        await self._stream.write(data)

    async def close_write(self) -> None:
        """Close the direction to the sandbox: its program reads end-of-file."""
        connection: socket.socket = self._stream.get_extra_info("socket")
        connection.shutdown(socket.SHUT_WR)
