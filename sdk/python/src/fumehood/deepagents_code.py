"""Sandboxes for Deep Agents Code. The entry point deepagents_code.sandbox_providers names this class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deepagents_code.integrations.sandbox_provider import (
    SandboxInstallHint,
    SandboxNotFoundError,
    SandboxProvider,
    SandboxProviderMetadata,
)

from fumehood._errors import NotFound
from fumehood._sync._client import Client
from fumehood.deepagents import FumehoodSandbox

if TYPE_CHECKING:
    from deepagents.backends.protocol import SandboxBackendProtocol


class FumehoodProvider(SandboxProvider):  # type: ignore[misc] # deepagents_code has no types
    """Creates, finds and deletes sandboxes of the server in FUMEHOOD_SERVER, or of one that this program starts."""

    @property
    def metadata(self) -> SandboxProviderMetadata:
        """What Deep Agents Code shows of this provider."""
        hint = SandboxInstallHint(kind="package", name="fumehood")
        return SandboxProviderMetadata(name="fumehood", working_dir="/workspace", install=hint)

    def get_or_create(self, *, sandbox_id: str | None = None, **kwargs: Any) -> SandboxBackendProtocol:
        """Return the sandbox of a name or id, or create one with the options of a sandbox in kwargs."""
        timeout = kwargs.pop("timeout_s", None)
        client = Client(kwargs.pop("server", None), kwargs.pop("key", None))
        if sandbox_id is None:
            return FumehoodSandbox(client.create(**kwargs), timeout_s=timeout)
        try:
            return FumehoodSandbox(client.get(sandbox_id), timeout_s=timeout)
        except NotFound as e:
            raise SandboxNotFoundError(str(e)) from e

    def delete(self, *, sandbox_id: str, **kwargs: Any) -> None:
        """Remove a sandbox. It is no error if there is none."""
        with Client(kwargs.get("server"), kwargs.get("key")) as client:
            try:
                client.get(sandbox_id).remove()
            except NotFound:
                return
