"""A sandbox as the backend of Deep Agents: pip install 'fumehood[deepagents]'.

from fumehood.deepagents import FumehoodSandbox

agent = create_deep_agent(model, backend=FumehoodSandbox())
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from deepagents.backends.protocol import (
    FILE_NOT_FOUND,
    INVALID_PATH,
    IS_DIRECTORY,
    PERMISSION_DENIED,
    ExecuteResponse,
    FileDownloadResponse,
    FileUploadResponse,
)
from deepagents.backends.sandbox import BaseSandbox

from fumehood._errors import InvalidRequest, NotFound, TooLarge
from fumehood._sync._sandbox import Sandbox

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self, Unpack

    from fumehood._models._requests import SandboxOptions

FAILURES = (InvalidRequest, NotFound, TooLarge)  # of one file; any other error ends the call
DENIED = ("permission denied", "read-only file system")


class FumehoodSandbox(BaseSandbox):
    """A living sandbox in which an agent runs commands and keeps files.

    Args:
        sandbox: The sandbox. By default one is created with the other arguments, which are those of Sandbox.
        name: Name of the sandbox, which then stays when this is closed.
        server: Address of a server. The default is FUMEHOOD_SERVER, else a server that this program starts.
        key: API key, by default FUMEHOOD_KEY.
        timeout_s: Seconds of a command for which the agent names no time. The default is the server's, 30 s.
        options: Further options of the sandbox: limits, network, env, ...

    """

    def __init__(
        self,
        sandbox: Sandbox | None = None,
        *,
        name: str | None = None,
        server: str | None = None,
        key: str | None = None,
        timeout_s: float | None = None,
        **options: Unpack[SandboxOptions],
    ) -> None:
        self.sandbox = sandbox or Sandbox(name, server=server, key=key, **options)
        self._timeout_s = timeout_s

    @property
    def id(self) -> str:
        """The name of the sandbox, or its id."""
        return self.sandbox.name_or_id

    def execute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:
        """Run a line of the shell. timeout is in seconds; 0 is the default."""
        answer = self.sandbox.exec(f"exec 2>&1\n{command}", timeout_s=timeout or self._timeout_s)
        output = answer.stdout
        if answer.status not in ("succeeded", "failed"):
            output += f"\n[status {answer.status}: {answer.hint or ''}]"
        truncated = bool(answer.output and answer.output.stdout.truncated)
        return ExecuteResponse(output=output, exit_code=answer.exit_code, truncated=truncated)

    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        """Write files, and their missing folders."""
        return [FileUploadResponse(path=path, error=self._upload(path, content)) for path, content in files]

    def _upload(self, path: str, content: bytes) -> str | None:
        if not PurePosixPath(path).is_absolute():
            return INVALID_PATH
        try:
            self.sandbox.files.write(path, content)
        except FAILURES as e:
            return failure(e)
        return None

    def download_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        """Read files."""
        return [self._download(path) for path in paths]

    def _download(self, path: str) -> FileDownloadResponse:
        if not PurePosixPath(path).is_absolute():
            return FileDownloadResponse(path=path, error=INVALID_PATH)
        try:
            return FileDownloadResponse(path=path, content=self.sandbox.files.read(path))
        except FAILURES as e:
            return FileDownloadResponse(path=path, error=failure(e))

    def close(self) -> None:
        """Close the connections. A sandbox without a name is removed."""
        self.sandbox.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def failure(error: InvalidRequest | NotFound | TooLarge) -> str:
    """Return the code of Deep Agents for the failure of one file, or a message if it has none."""
    if isinstance(error, NotFound):
        return FILE_NOT_FOUND
    if any(reason in error.message for reason in DENIED):
        return PERMISSION_DENIED
    if "is a folder" in error.message:
        return IS_DIRECTORY
    return INVALID_PATH if isinstance(error, InvalidRequest) else str(error)
