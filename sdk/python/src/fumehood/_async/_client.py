"""A server, and what does not belong to one sandbox."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from fumehood._async import _io
from fumehood._async._calls import AsyncCalls
from fumehood._async._sandbox import AsyncSandbox
from fumehood._async._transport import AsyncTransport
from fumehood._errors import Unavailable
from fumehood._events import Collector, split
from fumehood._models._runs import Answer
from fumehood._models._sandboxes import SandboxInfo, SandboxList
from fumehood._models._server import Capabilities, Languages, Volume, VolumeList
from fumehood._wire import EVENTS, body_of, run_id, sandbox_path, shell

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Self, Unpack

    from fumehood._arguments import OneShotArguments
    from fumehood._async._calls import Answering
    from fumehood._models._requests import SandboxOptions
    from fumehood._models._server import Language

PAGE = 500  # sandboxes of one request
WHOLE_RUN = None  # no time limit of the client: the server ends the run


class AsyncClient:
    """A server: its sandboxes, its languages, and runs in fresh sandboxes.

    server is http://HOST:PORT, https://HOST:PORT or unix:PATH; the default is FUMEHOOD_SERVER, else a server that this
    program starts and that ends with it. key is an API key; the default is FUMEHOOD_KEY. The methods raise
    FumehoodError.
    """

    def __init__(self, server: str | None = None, key: str | None = None) -> None:
        self._transport = AsyncTransport(server, key)

    async def close(self) -> None:
        """Close the connections. The sandboxes stay."""
        await self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def run(
        self,
        code: str | None = None,
        *,
        language: str = "python",
        command: str | Sequence[str] | None = None,
        **arguments: Unpack[OneShotArguments],
    ) -> Answer:
        """Run code, or a command, in a fresh sandbox that then ends, and return its answer.

        A failed program is a status of the answer.
        """
        what = {"code": code, "language": language} if command is None else {"command": shell(command)}
        callbacks, tools, body = split({**arguments, **what})
        collector = Collector(callbacks)
        if tools:
            async with _io.tasks() as start:
                return await self._stream(body, collector, partial(AsyncCalls, tools=tools, start=start))
        if not callbacks:
            return await self._transport.ask(Answer, "POST", "/v1/run", json=body, timeout=WHOLE_RUN)
        return await self._stream(body, collector)

    async def _stream(self, body: dict[str, Any], collector: Collector, calls: Answering | None = None) -> Answer:
        async with self._transport.stream("POST", "/v1/run", json=body, headers=EVENTS) as response:
            if calls:
                collector.on_call = calls(self._transport, f"/v1/runs/{run_id(response.headers)}").take
            answer = await self._transport.collect(response, collector)
        if answer is None:
            raise Unavailable("the server's stream of events broke off; it ended the run")
        return answer

    async def create(self, name: str | None = None, **options: Unpack[SandboxOptions]) -> AsyncSandbox:
        """Create a living sandbox, or find the one of this name. The caller removes it."""
        body = body_of({**options, "name": name})
        info = await self._transport.ask(SandboxInfo, "POST", "/v1/sandboxes", json=body, timeout=WHOLE_RUN)
        return AsyncSandbox.of(self._transport, info)

    async def get(self, name: str) -> AsyncSandbox:
        """Return a living sandbox by its name or id. It raises NotFound if there is none."""
        return AsyncSandbox.of(self._transport, await self._transport.ask(SandboxInfo, "GET", sandbox_path(name)))

    async def sandboxes(self, metadata: Mapping[str, str] | None = None) -> list[SandboxInfo]:
        """List the living sandboxes that have this metadata, the oldest first."""
        found: list[SandboxInfo] = []
        query: dict[str, Any] = {"limit": PAGE, "metadata": [f"{k}:{v}" for k, v in (metadata or {}).items()]}
        while True:
            page = await self._transport.ask(SandboxList, "GET", "/v1/sandboxes", params=query)
            found += page.sandboxes
            if not page.more or not page.sandboxes:
                return found
            query["after"] = found[-1].id

    async def create_volume(
        self, name: str, size_mib: int, *, inodes: int | None = None, allow_unenforced: Sequence[str] | None = None
    ) -> Volume:
        """Create a named volume. It outlives sandboxes, which mount it by volumes.

        allow_unenforced names limits that the server's host may leave unenforced: disk, inodes.
        """
        body = body_of({"name": name, "size_mib": size_mib, "inodes": inodes, "allow_unenforced": allow_unenforced})
        return await self._transport.ask(Volume, "POST", "/v1/volumes", json=body)

    async def volumes(self) -> list[Volume]:
        """List the named volumes of the caller, with the sandboxes that use them."""
        return (await self._transport.ask(VolumeList, "GET", "/v1/volumes")).volumes

    async def remove_volume(self, name: str) -> None:
        """Remove a named volume that no sandbox uses, with its files."""
        await self._transport.json("DELETE", f"/v1/volumes/{quote(name, safe='')}")

    async def capabilities(self) -> Capabilities:
        """Report the backends, features and maxima of the server."""
        return await self._transport.ask(Capabilities, "GET", "/v1/capabilities")

    async def languages(self, *, image: str | None = None) -> list[Language]:
        """Report the languages of the server, with their versions and modules; with image, those of an image."""
        query = body_of({"image": image})
        found = await self._transport.ask(Languages, "GET", "/v1/languages", params=query, timeout=WHOLE_RUN)
        return found.languages
