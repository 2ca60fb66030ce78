"""A sandbox client of the OpenAI Agents SDK: pip install 'fumehood[openai-agents]'.

from fumehood.openai_agents import FumehoodSandboxClient

agent = SandboxAgent(name="worker", instructions="...")
config = RunConfig(sandbox=SandboxRunConfig(client=FumehoodSandboxClient()))
await Runner.run(agent, "task", run_config=config)
"""

from __future__ import annotations

import io
import tarfile
import tempfile
import uuid
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, cast

from agents.sandbox.errors import (
    ExecTimeoutError,
    ExecTransportError,
    ExposedPortUnavailableError,
    WorkspaceArchiveReadError,
    WorkspaceArchiveWriteError,
    WorkspaceReadNotFoundError,
    WorkspaceStartError,
    WorkspaceWriteTypeError,
)
from agents.sandbox.manifest import Manifest
from agents.sandbox.session import SandboxSession, SandboxSessionState
from agents.sandbox.session.base_sandbox_session import BaseSandboxSession
from agents.sandbox.session.manager import Instrumentation
from agents.sandbox.session.pty_types import clamp_pty_yield_time_ms, resolve_pty_write_yield_time_ms
from agents.sandbox.session.runtime_helpers import RESOLVE_WORKSPACE_PATH_HELPER, RuntimeHelperScript
from agents.sandbox.session.sandbox_client import BaseSandboxClient, BaseSandboxClientOptions
from agents.sandbox.snapshot import SnapshotBase, SnapshotSpec, resolve_snapshot
from agents.sandbox.types import ExecResult, ExposedPortEndpoint, User
from pydantic import Field

from fumehood._agent_processes import Forward, Process, Processes, exit_code
from fumehood._async._client import AsyncClient
from fumehood._errors import FumehoodError, NotFound

if TYPE_CHECKING:
    from agents.sandbox.session.dependencies import Dependencies
    from agents.sandbox.session.pty_types import PtyExecUpdate

    from fumehood._async._sandbox import AsyncSandbox
    from fumehood._models._requests import TerminalSizeRequest
    from fumehood._models._runs import Answer

WORKSPACE = "/workspace"
START_MS = 10_000  # how long the output of a new process is collected
INPUT_MS = 250  # and after input


class FumehoodSandboxClientOptions(BaseSandboxClientOptions):
    """Options of a sandbox.

    options are those of fumehood.Sandbox: limits, network, image, lifetime, ... With keep, closing the session leaves
    the sandbox, which resume finds again until its lifetime ends; delete removes it.
    """

    type: Literal["fumehood"] = "fumehood"
    exposed_ports: tuple[int, ...] = ()
    keep: bool = False
    options: dict[str, Any] = Field(default_factory=dict)


class FumehoodSandboxSessionState(SandboxSessionState):
    """What resume needs. It has no key: the client that resumes has its own."""

    type: Literal["fumehood"] = "fumehood"
    sandbox_id: str
    keep: bool = False
    options: dict[str, Any] = Field(default_factory=dict)


class FumehoodSandboxSession(BaseSandboxSession):
    """A living sandbox in which an agent works. The client makes it."""

    state: FumehoodSandboxSessionState

    def __init__(self, state: FumehoodSandboxSessionState, sandbox: AsyncSandbox) -> None:
        self.state = state
        self._sandbox = sandbox
        self._processes = Processes()
        self._forwards: dict[int, tuple[Forward, int]] = {}
        self._root_ready = state.workspace_root_ready

    @property
    def sandbox(self) -> AsyncSandbox:
        """The sandbox, with all that Fumehood offers."""
        return self._sandbox

    async def _env(self) -> dict[str, str]:
        return await self.state.manifest.environment.resolve()

    def _dir(self) -> str:
        return self.state.manifest.root if self._root_ready else WORKSPACE

    async def _exec_internal(self, *command: str | Path, timeout: float | None = None) -> ExecResult:
        words = [str(word) for word in command]
        # 0 is no time limit. That of the sandbox's runs does not apply.
        limit = max(timeout, 0.001) if timeout is not None else 0
        try:
            answer = await self._sandbox.exec(words, dir=self._dir(), env=await self._env(), timeout_s=limit)
        except FumehoodError as e:
            raise ExecTransportError(command=command, context={"backend": "fumehood"}, cause=e) from e
        if answer.status == "timeout":
            raise ExecTimeoutError(command=command, timeout_s=timeout)
        code = exit_code(answer.exit_code)
        return ExecResult(stdout=exact(answer, "stdout"), stderr=exact(answer, "stderr"), exit_code=code)

    def supports_pty(self) -> bool:
        """Whether a process can have a terminal."""
        return True

    async def pty_exec_start(
        self,
        *command: str | Path,
        timeout: float | None = None,
        shell: bool | list[str] = True,
        user: str | User | None = None,
        tty: bool = False,
        yield_time_s: float | None = None,
        max_output_tokens: int | None = None,
    ) -> PtyExecUpdate:
        """Start a process, and return its first output."""
        words = self._prepare_exec_command(*command, shell=shell, user=user)
        terminal: TerminalSizeRequest | None = {"rows": 24, "columns": 80} if tty else None
        env, limit = await self._env(), timeout or 0
        try:
            run = await self._sandbox.start(command=words, dir=self._dir(), env=env, timeout_s=limit, terminal=terminal)
        except FumehoodError as e:
            raise ExecTransportError(command=command, context={"backend": "fumehood"}, cause=e) from e
        number = await self._processes.add(Process(run, takes_input=tty))
        wait = START_MS if yield_time_s is None else int(yield_time_s * 1000)
        return await self._processes.update(number, clamp_pty_yield_time_ms(wait), max_output_tokens)

    async def pty_write_stdin(
        self,
        *,
        session_id: int,
        chars: str,
        yield_time_s: float | None = None,
        max_output_tokens: int | None = None,
    ) -> PtyExecUpdate:
        """Type into a process, and return its next output."""
        process = self._processes.find(session_id)
        if chars:
            if not process.takes_input:
                raise RuntimeError("stdin is not available for this process")
            await process.run.write(chars)
        wait = INPUT_MS if yield_time_s is None else int(yield_time_s * 1000)
        wait = resolve_pty_write_yield_time_ms(yield_time_ms=wait, input_empty=not chars)
        return await self._processes.update(session_id, wait, max_output_tokens)

    async def pty_terminate_all(self) -> None:
        """End all processes of pty_exec_start."""
        await self._processes.end()

    async def _resolve_exposed_port(self, port: int) -> ExposedPortEndpoint:
        if port not in self._forwards:
            forward = Forward(self._sandbox, port)
            try:
                self._forwards[port] = forward, await forward.open()
            except OSError as e:
                raise ExposedPortUnavailableError(
                    port=port, exposed_ports=self.state.exposed_ports, reason="backend_unavailable", cause=e
                ) from e
        return ExposedPortEndpoint(host="127.0.0.1", port=self._forwards[port][1])

    def _runtime_helpers(self) -> tuple[RuntimeHelperScript, ...]:
        return (RESOLVE_WORKSPACE_PATH_HELPER,)

    def _current_runtime_helper_cache_key(self) -> object | None:
        return self.state.sandbox_id

    async def _validate_path_access(self, path: Path | str, *, for_write: bool = False) -> Path:
        return await self._validate_remote_path_access(path, for_write=for_write)

    async def _prepare_backend_workspace(self) -> None:
        root = self.state.manifest.root
        try:
            await self._sandbox.files.mkdir(root)
        except FumehoodError as e:
            raise WorkspaceStartError(path=Path(root), cause=e) from e
        self._root_ready = True

    async def read(self, path: Path, *, user: str | User | None = None) -> io.IOBase:
        """Return the content of a file."""
        if user is not None:
            await self._check_read_with_exec(path, user=user)
        inside = await self._validate_path_access(path)
        try:
            return io.BytesIO(await self._sandbox.files.read(inside.as_posix()))
        except NotFound as e:
            raise WorkspaceReadNotFoundError(path=path, cause=e) from e
        except FumehoodError as e:
            raise WorkspaceArchiveReadError(path=path, cause=e) from e

    async def write(self, path: Path, data: io.IOBase, *, user: str | User | None = None) -> None:
        """Write a file, and its missing folders."""
        if user is not None:
            await self._check_write_with_exec(path, user=user)
        content = data.read()
        if not isinstance(content, (str, bytes, bytearray)):
            raise WorkspaceWriteTypeError(path=path, actual_type=type(content).__name__)
        inside = await self._validate_path_access(path, for_write=True)
        try:
            await self._sandbox.files.write(inside.as_posix(), content if isinstance(content, str) else bytes(content))
        except FumehoodError as e:
            raise WorkspaceArchiveWriteError(path=inside, cause=e) from e

    async def running(self) -> bool:
        """Whether the sandbox lives."""
        try:
            return self._root_ready and (await self._sandbox.info()).state == "ready"
        except FumehoodError:
            return False

    async def persist_workspace(self) -> io.IOBase:
        """Return the workspace as a tar, without what the manifest does not persist."""
        root = self.state.manifest.root
        whole = temporary()
        try:
            await self._sandbox.files.pack(root, whole)
        except FumehoodError as e:
            raise WorkspaceArchiveReadError(path=Path(root), cause=e) from e
        whole.seek(0)
        skipped = {PurePosixPath(path.as_posix()) for path in self._persist_workspace_skip_relpaths()}
        return without(whole, skipped) if skipped else whole

    async def hydrate_workspace(self, data: io.IOBase) -> None:
        """Unpack a tar into the workspace."""
        root = self.state.manifest.root
        try:
            await self._sandbox.files.unpack(root, cast("BinaryIO", data))
        except FumehoodError as e:
            raise WorkspaceArchiveWriteError(path=Path(root), cause=e) from e
        self._root_ready = True

    async def _shutdown_backend(self) -> None:
        for forward, _ in self._forwards.values():
            await forward.close()
        self._forwards.clear()
        if not self.state.keep:
            await self._sandbox.remove()


class FumehoodSandboxClient(BaseSandboxClient[FumehoodSandboxClientOptions]):
    """Creates, resumes and deletes sandboxes.

    server is an address, by default FUMEHOOD_SERVER, else a server that this program starts. key is an API key, by
    default FUMEHOOD_KEY.
    """

    backend_id = "fumehood"
    supports_default_options = True

    def __init__(
        self,
        server: str | None = None,
        key: str | None = None,
        *,
        instrumentation: Instrumentation | None = None,
        dependencies: Dependencies | None = None,
    ) -> None:
        self._client = AsyncClient(server, key)
        self._instrumentation = instrumentation or Instrumentation()
        self._dependencies = dependencies

    async def create(
        self,
        *,
        snapshot: SnapshotSpec | SnapshotBase | None = None,
        manifest: Manifest | None = None,
        options: FumehoodSandboxClientOptions | None = None,
    ) -> SandboxSession:
        """Create a sandbox, and return its session, which start or `async with` starts."""
        options = options or FumehoodSandboxClientOptions()
        manifest = self._validate_manifest_for_create(manifest or Manifest())
        sandbox = await self._client.create(**options.options)
        session = uuid.uuid4()
        state = FumehoodSandboxSessionState(
            session_id=session,
            manifest=manifest,
            snapshot=resolve_snapshot(snapshot, str(session)),
            sandbox_id=sandbox.id,
            keep=options.keep,
            options=options.options,
            exposed_ports=options.exposed_ports,
        )
        return self._session(state, sandbox)

    async def resume(self, state: SandboxSessionState) -> SandboxSession:
        """Return a session with the same sandbox, or with a new one if that has ended."""
        if not isinstance(state, FumehoodSandboxSessionState):
            raise TypeError("FumehoodSandboxClient.resume expects a FumehoodSandboxSessionState")
        state.assert_path_grants_rebound()
        try:
            sandbox = await self._client.get(state.sandbox_id)
            found = True
        except NotFound:
            sandbox = await self._client.create(**state.options)
            found = False
            state.sandbox_id, state.workspace_root_ready = sandbox.id, False
        return self._session(state, sandbox, found=found)

    def _session(
        self, state: FumehoodSandboxSessionState, sandbox: AsyncSandbox, *, found: bool = False
    ) -> SandboxSession:
        inner = FumehoodSandboxSession(state, sandbox)
        inner._set_start_state_preserved(found)
        return self._wrap_session(inner, instrumentation=self._instrumentation)

    async def delete(self, session: SandboxSession) -> SandboxSession:
        """Remove the sandbox of a session. It is no error if it has ended."""
        inner = session._inner
        if not isinstance(inner, FumehoodSandboxSession):
            raise TypeError("FumehoodSandboxClient.delete expects a FumehoodSandboxSession")
        await inner.sandbox.remove()
        return session

    def deserialize_session_state(self, payload: dict[str, object]) -> SandboxSessionState:
        """Return the state that serialize_session_state wrote."""
        return self._deserialize_session_state_payload(payload, FumehoodSandboxSessionState)

    async def close(self) -> None:
        """Close the connections. Sandboxes stay."""
        await self._client.close()


def exact(answer: Answer, stream: Literal["stdout", "stderr"]) -> bytes:
    """Return the bytes of an output stream."""
    details = getattr(answer.output, stream) if answer.output else None
    if details and details.base64 is not None:
        return bytes(details.base64)
    text: str = getattr(answer, stream)
    return text.encode()


def temporary() -> io.BufferedRandom:
    """Return a temporary file, which ends with its last reader: a workspace may be larger than the memory."""
    return tempfile.TemporaryFile()


def without(archive: io.BufferedRandom, skipped: set[PurePosixPath]) -> io.IOBase:
    """Return a tar without the members at or below some paths."""
    rest = temporary()
    with archive, tarfile.open(fileobj=archive) as source, tarfile.open(fileobj=rest, mode="w") as target:
        for member in source:
            path = PurePosixPath(member.name)
            if path not in skipped and not skipped.intersection(path.parents):
                target.addfile(member, source.extractfile(member) if member.isreg() else None)
    rest.seek(0)
    return rest
