"""Living sandboxes."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import suppress
from os.path import realpath
from types import TracebackType
from typing import TYPE_CHECKING, Any

from fumehood._async._contexts import AsyncContext
from fumehood._async._files import AsyncFiles
from fumehood._async._network import AsyncNetwork
from fumehood._async._ports import AsyncTunnel
from fumehood._async._runs import AsyncRun, run_to_end
from fumehood._async._transport import AsyncTransport
from fumehood._errors import AlreadyExists, NotFound
from fumehood._events import split
from fumehood._models._sandboxes import ContextInfo, ContextList, RunInfo, RunList, SandboxInfo, SandboxUsage
from fumehood._wire import body_of, sandbox_path, shell

if TYPE_CHECKING:
    from collections.abc import Sequence
    from os import PathLike

    import httpx
    from typing_extensions import Self, Unpack

    from fumehood._arguments import RunArguments, StartArguments
    from fumehood._models._policy import Difference
    from fumehood._models._requests import CallLimitsRequest, LifetimeRequest, SandboxOptions
    from fumehood._models._runs import Answer
    from fumehood._tools import Tools

DEFAULT_CONTEXT = "default"


class AsyncSandbox:
    """A living sandbox: it keeps its files, and the variables of its contexts, between runs.

    With a name, it is created or found again, and stays when it is closed. Without one, it is removed then. server and
    key are those of Client. workspace is a directory of the server's host that code can change: the only one. Read its
    files by files, which follows no link out of it; open() would. The options are those of the API: limits, network,
    lifetime, env, ... The methods raise FumehoodError.

    Attributes:
        name: Its name, or None.
        id: Its id.
        existing: Whether it was found, not created.
        differences: The options that one that was found does not have.

    """

    def __init__(
        self,
        name: str | None = None,
        *,
        server: str | None = None,
        key: str | None = None,
        workspace: str | PathLike[str] | None = None,
        **options: Unpack[SandboxOptions],
    ) -> None:
        if workspace is not None:
            volumes = options.get("volumes") or []
            options["volumes"] = [*volumes, {"host_dir": realpath(workspace), "path": "/workspace"}]
        self._begin(AsyncTransport(server, key), name, body_of({**options, "name": name}))
        # sync: self._open()

    def _begin(self, transport: AsyncTransport, name: str | None, body: dict[str, Any] | None) -> None:
        self._transport = transport
        self._body = body  # None: it exists
        self._owns = body is not None  # and closes the transport
        self.name = name
        self.id = ""
        self.existing = body is None
        self.differences: list[Difference] = []

    @classmethod
    def of(cls, transport: AsyncTransport, info: SandboxInfo) -> Self:
        """Return a sandbox that exists. Client.get and Client.create call it."""
        self = cls.__new__(cls)
        self._begin(transport, info.name, None)
        self._found(info)
        return self

    def _found(self, info: SandboxInfo) -> None:
        self.id = info.id
        self.existing = info.existing or self.existing
        self.differences = info.differences or []

    async def _open(self) -> Self:
        if self._body is not None:
            body, ask = self._body, self._transport.ask
            try:
                self._found(await ask(SandboxInfo, "POST", "/v1/sandboxes", json=body, timeout=None))
            except BaseException:
                await self._transport.close()
                raise
            self._body = None
        return self

    def __await__(self) -> Generator[Any, None, Self]:  # async
        return self._open().__await__()  # async

    async def __aenter__(self) -> Self:
        return await self._open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name_or_id}>"

    @property
    def name_or_id(self) -> str:
        """The name, or the id of a sandbox without one."""
        return self.name or self.id

    async def close(self) -> None:
        """Close the connections. A sandbox without a name is removed."""
        try:
            if self._owns and self.id and not self.name:
                await self.remove()
        finally:
            if self._owns:
                await self._transport.close()

    async def remove(self) -> None:
        """End the sandbox; its files are lost. It is no error if it has ended already."""
        with suppress(NotFound):
            await self._transport.json("DELETE", sandbox_path(self.id))

    async def run(self, code: str | None = None, **arguments: Unpack[RunArguments]) -> Answer:
        """Run code in a context, or with entry a file of the workspace, and return its answer.

        A failed program is a status of the answer. The run survives a restart of the server, unless it has
        return_files. If the caller gives up, the run is canceled.
        """
        return await run_to_end(self, {**arguments, "code": code})

    async def exec(self, command: str | Sequence[str], **arguments: Unpack[RunArguments]) -> Answer:
        """Run a command, and return its answer: a line for /bin/sh, or a program and its arguments."""
        return await run_to_end(self, {**arguments, "command": shell(command)})

    async def start(
        self,
        code: str | None = None,
        *,
        command: str | Sequence[str] | None = None,
        **arguments: Unpack[StartArguments],
    ) -> AsyncRun:
        """Start code or a command in the background, and return the run."""
        words = None if command is None else shell(command)
        _, tools, body = split({**arguments, "code": code, "command": words, "background": True})
        info = await self._transport.ask(RunInfo, "POST", sandbox_path(self.id, "run"), json=body)
        run = self.find_run(info.id)
        run._tools = tools
        return run

    def find_run(self, id: str) -> AsyncRun:
        """Return a run by its id, without asking the server."""
        return AsyncRun(self._transport, self.id, id)

    async def runs(self) -> list[RunInfo]:
        """List the runs in progress, and the last 100 that ended; the oldest first."""
        return (await self._transport.ask(RunList, "GET", sandbox_path(self.id, "runs"))).runs

    async def context(
        self,
        name: str | None = None,
        *,
        language: str | None = None,
        dir: str | None = None,
        env: Mapping[str, str] | None = None,
        tools: Tools | None = None,
        call_limits: CallLimitsRequest | None = None,
    ) -> AsyncContext:
        """Return the context of a name, and create it unless it exists; without a name, a new one.

        All runs of the context can call its tools. Those of a context that exists are answered by the functions of
        these names.
        """
        _, own, body = split(
            {"name": name, "language": language, "dir": dir, "env": env, "tools": tools, "call_limits": call_limits}
        )
        try:
            path = sandbox_path(self.id, "contexts")
            name = (await self._transport.ask(ContextInfo, "POST", path, json=body)).name
        except AlreadyExists:
            assert name
        return AsyncContext(self, name, own)

    async def contexts(self) -> list[ContextInfo]:
        """List the contexts."""
        return (await self._transport.ask(ContextList, "GET", sandbox_path(self.id, "contexts"))).contexts

    async def export(self, *names: str) -> dict[str, Any]:
        """Return the variables of the default context of Python as a document: see Context.export."""
        return await AsyncContext(self, DEFAULT_CONTEXT).export(*names)

    async def load(self, document: Mapping[str, Any]) -> list[dict[str, str]]:
        """Set the variables of a document in the default context, and return those that could not be set."""
        return await AsyncContext(self, DEFAULT_CONTEXT).load(document)

    async def get(self, name: str) -> Any:
        """Return the value of a variable of the default context: see Context.get."""
        return await AsyncContext(self, DEFAULT_CONTEXT).get(name)

    async def set(self, **values: Any) -> None:
        """Set variables of the default context."""
        await AsyncContext(self, DEFAULT_CONTEXT).set(**values)

    async def interrupt(self, context: str = DEFAULT_CONTEXT) -> None:
        """Interrupt the running code of a context. The variables stay."""
        await AsyncContext(self, context).interrupt()

    async def restart(self, context: str = DEFAULT_CONTEXT) -> None:
        """Restart the interpreter of a context. The variables are lost."""
        await AsyncContext(self, context).restart()

    @property
    def files(self) -> AsyncFiles:
        """The files of the sandbox."""
        return AsyncFiles(self._transport, self.id)

    @property
    def network(self) -> AsyncNetwork:
        """The network of the sandbox."""
        return AsyncNetwork(self)

    def http(self, port: int) -> httpx.AsyncClient:
        """Return an HTTP client of the server on a port in the sandbox. The caller closes it."""
        assert self._transport.address
        return self._transport.client(self._transport.address.base + sandbox_path(self.id, "ports", str(port)) + "/")

    def connect(self, port: int) -> AsyncTunnel:
        """Return a TCP connection to a port in the sandbox, which `async with` opens and closes."""
        return AsyncTunnel(self._transport, self.id, port)

    async def info(self) -> SandboxInfo:
        """Describe the sandbox."""
        return await self._transport.ask(SandboxInfo, "GET", sandbox_path(self.id))

    async def stats(self) -> SandboxUsage:
        """Report the resources that the sandbox uses."""
        return await self._transport.ask(SandboxUsage, "GET", sandbox_path(self.id, "stats"))

    async def update(
        self, *, lifetime: LifetimeRequest | None = None, metadata: Mapping[str, str] | None = None
    ) -> SandboxInfo:
        """Change when the sandbox ends, or replace its metadata."""
        return await self._patch(body_of({"lifetime": lifetime, "metadata": metadata}))

    async def _patch(self, body: dict[str, Any]) -> SandboxInfo:
        return await self._transport.ask(SandboxInfo, "PATCH", sandbox_path(self.id), json=body)

    async def clean(self, *, force: bool = False) -> None:
        """Empty the workspace. force is required if the workspace is a directory of the host."""
        await self._transport.json("POST", sandbox_path(self.id, "clean"), json={"force": force})
