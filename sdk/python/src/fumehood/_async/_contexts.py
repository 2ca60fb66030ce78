"""Interpreters that keep their variables between runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fumehood._async._runs import run_to_end
from fumehood._errors import InvalidRequest
from fumehood._models._sandboxes import Completion
from fumehood._state import document_of, value_of
from fumehood._wire import sandbox_path

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from fumehood._arguments import RunArguments, StartArguments
    from fumehood._async._runs import AsyncRun
    from fumehood._async._sandbox import AsyncSandbox
    from fumehood._models._runs import Answer
    from fumehood._tools import Tool


class AsyncContext:
    """A context of a sandbox: an interpreter that keeps its variables between runs."""

    def __init__(self, sandbox: AsyncSandbox, name: str, tools: dict[str, Tool] | None = None) -> None:
        self._sandbox = sandbox
        self._tools = tools or {}
        self.name = name

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} of {self._sandbox.name_or_id}>"

    async def run(self, code: str, **arguments: Unpack[RunArguments]) -> Answer:
        """Run code in this context, with the arguments of Sandbox.run."""
        arguments["context"] = self.name
        return await run_to_end(self._sandbox, {**arguments, "code": code}, self._tools)

    async def start(self, code: str, **arguments: Unpack[StartArguments]) -> AsyncRun:
        """Start code in this context in the background, with the arguments of Sandbox.start."""
        arguments["context"] = self.name
        run = await self._sandbox.start(code, **arguments)
        run._tools = {**self._tools, **run._tools}
        return run

    async def export(self, *names: str) -> dict[str, Any]:
        """Return the variables, or those of these names, as a document that another sandbox can load.

        Its "missing" lists what cannot be carried, with the reason. It comes from the sandbox: treat it as hostile.
        """
        return await self._state("GET", params={"name": list(names)} if names else None)

    async def load(self, document: Mapping[str, Any]) -> list[dict[str, str]]:
        """Set the variables of a document, and return those that could not be set, with the reason."""
        missing: list[dict[str, str]] = (await self._state("PUT", content=json.dumps(document).encode()))["missing"]
        return missing

    async def get(self, name: str) -> Any:
        """Return the value of a variable: numbers, text, dates, containers, arrays and frames.

        Nothing is executed: a function or a class is its source text.
        """
        return value_of(await self.export(name), name)

    async def set(self, **values: Any) -> None:
        """Set variables to values that get can return."""
        for missing in (await self._state("PUT", content=document_of(values)))["missing"]:
            raise InvalidRequest(f"the value of {missing['name']} could not be set: {missing['reason']}")

    async def _state(self, method: str, **options: Any) -> dict[str, Any]:
        path = sandbox_path(self._sandbox.id, "contexts", self.name, "state")
        found: dict[str, Any] = await self._sandbox._transport.json(method, path, timeout=None, **options)
        return found

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
