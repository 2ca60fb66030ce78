"""The processes and the ports of a sandbox that the OpenAI Agents SDK uses."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING

from agents.sandbox.errors import PtySessionNotFoundError
from agents.sandbox.session.pty_output import collect_pty_output
from agents.sandbox.session.pty_types import (
    PTY_PROCESSES_MAX,
    PtyExecUpdate,
    allocate_pty_process_id,
    process_id_to_prune_from_meta,
)

from fumehood._errors import FumehoodError
from fumehood._models._runs import Done, OutputPiece

if TYPE_CHECKING:
    from fumehood._async._runs import AsyncRun
    from fumehood._async._sandbox import AsyncSandbox


class Process:
    """A command in the background, and its output that nobody has read yet."""

    def __init__(self, run: AsyncRun, *, takes_input: bool) -> None:
        self.run = run
        self.takes_input = takes_input
        self.used = time.monotonic()
        self.exit_code: int | None = None
        self.ended = asyncio.Event()
        self._output: deque[bytes] = deque()
        self._lock = asyncio.Lock()
        self._more = asyncio.Event()
        self._reader = asyncio.create_task(self._read())

    async def _read(self) -> None:
        code = -1  # of a run whose end is lost
        try:
            async for event in self.run.events():
                if isinstance(event.data, OutputPiece):
                    piece = event.data
                    self._output.append(piece.text.encode() if piece.base64 is None else piece.base64)
                    self._more.set()
                elif isinstance(event.data, Done):
                    code = exit_code(event.data.exit_code)
        except FumehoodError as e:
            self._output.append(f"\n{e}\n".encode())
        finally:
            self.exit_code = code
            self.ended.set()
            self._more.set()

    async def collect(self, wait_ms: int, most_tokens: int | None) -> tuple[bytes, int | None, bool]:
        """Return the output of the next while, its tokens if it is shortened, and whether it is the last."""
        return await collect_pty_output(
            output_chunks=self._output,
            output_lock=self._lock,
            output_notify=self._more,
            is_done=self.ended.is_set,
            yield_time_ms=wait_ms,
            max_output_tokens=most_tokens,
        )

    async def end(self) -> None:
        """End the process."""
        if not self.ended.is_set():
            with suppress(FumehoodError):  # its sandbox may have ended
                await self.run.cancel()
        self._reader.cancel()
        with suppress(asyncio.CancelledError):
            await self._reader


class Processes:
    """The processes of a session, by the numbers that the model uses."""

    def __init__(self) -> None:
        self._all: dict[int, Process] = {}

    async def add(self, process: Process) -> int:
        """Add a process, and return its number. Of too many, the least used one ends."""
        number = allocate_pty_process_id(set(self._all))
        least = None
        if len(self._all) >= PTY_PROCESSES_MAX:
            meta = [(other, p.used, p.ended.is_set()) for other, p in self._all.items()]
            least = process_id_to_prune_from_meta(meta)
        self._all[number] = process
        if least is not None:
            await self._all.pop(least).end()
        return number

    def find(self, number: int) -> Process:
        """Return a process."""
        if number not in self._all:
            raise PtySessionNotFoundError(session_id=number)
        return self._all[number]

    async def update(self, number: int, wait_ms: int, most_tokens: int | None) -> PtyExecUpdate:
        """Return the next output of a process. One that has ended is forgotten with its last output."""
        process = self.find(number)
        output, tokens, last = await process.collect(wait_ms, most_tokens)
        process.used = time.monotonic()
        if last:
            self._all.pop(number, None)
            await process.end()
        return PtyExecUpdate(
            process_id=None if last else number,
            output=output,
            exit_code=process.exit_code if last else None,
            original_token_count=tokens,
        )

    async def end(self) -> None:
        """End all processes."""
        ending, self._all = self._all, {}
        await asyncio.gather(*(process.end() for process in ending.values()))


class Forward:
    """A port of 127.0.0.1 that leads to a port in a sandbox. Every user of this machine can reach it."""

    def __init__(self, sandbox: AsyncSandbox, port: int) -> None:
        self._sandbox = sandbox
        self._target = port
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def open(self) -> int:
        """Listen, and return the port."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._connect(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(FumehoodError, OSError):  # the client sees a closed connection
                await self._pass(reader, writer)
        finally:
            writer.close()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with self._sandbox.connect(self._target) as tunnel:

            async def send() -> None:
                while data := await reader.read(1 << 16):
                    await tunnel.write(data)
                await tunnel.close_write()

            sending = asyncio.create_task(send())
            try:
                while data := await tunnel.read():
                    writer.write(data)
                    await writer.drain()
            finally:
                sending.cancel()
                await asyncio.gather(sending, return_exceptions=True)

    async def close(self) -> None:
        """Stop to listen, and end the connections."""
        if self._server:
            self._server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)


def exit_code(code: int | None) -> int:
    """Return the code of a program; 137, as of SIGKILL in a shell, for one without."""
    return 137 if code is None else code
