"""Interpreters that keep their variables between runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fumehood._models._sandboxes import Completion
from fumehood._wire import sandbox_path

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from fumehood._arguments import RunArguments, StartArguments
    from fumehood._async._runs import AsyncRun
    from fumehood._async._sandbox import AsyncSandbox
    from fumehood._models._runs import Answer


class AsyncContext:
    """A context of a sandbox: an interpreter that keeps its variables between runs."""

    def __init__(self, sandbox: AsyncSandbox, name: str) -> None:
        self._sandbox = sandbox
        self.name = name

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} of {self._sandbox.name_or_id}>"

    async def run(self, code: str, **arguments: Unpack[RunArguments]) -> Answer:
        """Run code in this context, with the arguments of Sandbox.run."""
        arguments["context"] = self.name
        return await self._sandbox.run(code, **arguments)

    async def start(self, code: str, **arguments: Unpack[StartArguments]) -> AsyncRun:
        """Start code in this context in the background, with the arguments of Sandbox.start."""
        arguments["context"] = self.name
        return await self._sandbox.start(code, **arguments)

    async def interrupt(self) -> None:
        """Interrupt the running code. The variables stay."""
        await self._call("POST", "interrupt")

    async def restart(self) -> None:
        """Restart the interpreter. The variables are lost."""
        await self._call("POST", "restart")

    async def delete(self) -> None:
        """End the interpreter, and forget the context."""
        await self._call("DELETE")

    async def complete(self, code: str, cursor: int | None = None) -> list[str]:
        """Return the names that fit at a cursor: an index in the code, by default its end."""
        body: dict[str, Any] = {"code": code}
        if cursor is not None:
            body["cursor"] = len(code[:cursor].encode())
        path = sandbox_path(self._sandbox.id, "contexts", self.name, "complete")
        return (await self._sandbox._transport.ask(Completion, "POST", path, json=body)).names

    async def _call(self, method: str, *steps: str) -> None:
        await self._sandbox._transport.json(method, sandbox_path(self._sandbox.id, "contexts", self.name, *steps))
