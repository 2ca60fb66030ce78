"""The network of a living sandbox."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from fumehood._decode import decode
from fumehood._models._policy import NetworkRules
from fumehood._models._sandboxes import NetworkAttempt, NetworkReport
from fumehood._wire import EVENTS, sandbox_path

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from fumehood._async._sandbox import AsyncSandbox
    from fumehood._models._requests import NetworkRequest

LAST = 1000  # attempts in a report


class AsyncNetwork:
    """The network of a sandbox: its rules, and the log of its attempts to reach hosts."""

    def __init__(self, sandbox: AsyncSandbox) -> None:
        self._sandbox = sandbox

    async def report(self) -> NetworkReport:
        """Report the rules, totals by host, and the last attempts."""
        path = sandbox_path(self._sandbox.id, "network")
        return await self._sandbox._transport.ask(NetworkReport, "GET", path, params={"last": LAST})

    async def set(self, **rules: Unpack[NetworkRequest]) -> NetworkRules:
        """Replace all rules of a sandbox that was created with a network.

        Open connections that the new rules refuse are reset. A secret without a value keeps its value.
        """
        return (await self._sandbox._patch({"network": dict(rules)})).network

    async def follow(self, after: int = 0) -> AsyncGenerator[NetworkAttempt, None]:
        """Give each attempt with a higher id than after, as it occurs, until the sandbox ends."""
        query: dict[str, Any] = {"after": after}
        transport, path = self._sandbox._transport, sandbox_path(self._sandbox.id, "network")
        async with (
            transport.stream("GET", path, params=query, headers=EVENTS) as response,
            aclosing(transport.events(response)) as events,
        ):
            async for _, _, raw in events:
                yield decode(NetworkAttempt, raw)
