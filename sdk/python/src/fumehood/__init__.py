"""Run untrusted code in sandboxes: the client of Fumehood.

    from fumehood import Sandbox

    with Sandbox() as s:
        s.run("x = 41")
        print(s.run("x + 1").text)

AsyncSandbox and AsyncClient are the same for asyncio and trio.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fumehood._async._client import AsyncClient
    from fumehood._async._contexts import AsyncContext
    from fumehood._async._runs import AsyncRun
    from fumehood._async._sandbox import AsyncSandbox
    from fumehood._errors import (
        AlreadyExists,
        Busy,
        FumehoodError,
        Incompatible,
        InternalError,
        InvalidRequest,
        NotFound,
        QuotaExceeded,
        TooLarge,
        Unauthorized,
        Unavailable,
        Unsupported,
    )
    from fumehood._events import Event
    from fumehood._models._runs import Answer, CodeException, File, Result
    from fumehood._sync._client import Client
    from fumehood._sync._contexts import Context
    from fumehood._sync._runs import Run
    from fumehood._sync._sandbox import Sandbox
    from fumehood._tools import Tool

# Loaded when they are first used: the asynchronous half costs synchronous programs nothing.
_HOMES = {
    "_async._client": ["AsyncClient"],
    "_async._contexts": ["AsyncContext"],
    "_async._runs": ["AsyncRun"],
    "_async._sandbox": ["AsyncSandbox"],
    "_errors": [
        "AlreadyExists",
        "Busy",
        "FumehoodError",
        "Incompatible",
        "InternalError",
        "InvalidRequest",
        "NotFound",
        "QuotaExceeded",
        "TooLarge",
        "Unauthorized",
        "Unavailable",
        "Unsupported",
    ],
    "_events": ["Event"],
    "_models._runs": ["Answer", "CodeException", "File", "Result"],
    "_sync._client": ["Client"],
    "_sync._contexts": ["Context"],
    "_sync._runs": ["Run"],
    "_sync._sandbox": ["Sandbox"],
    "_tools": ["Tool"],
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "AlreadyExists",
    "Answer",
    "AsyncClient",
    "AsyncContext",
    "AsyncRun",
    "AsyncSandbox",
    "Busy",
    "Client",
    "CodeException",
    "Context",
    "Event",
    "File",
    "FumehoodError",
    "Incompatible",
    "InternalError",
    "InvalidRequest",
    "NotFound",
    "QuotaExceeded",
    "Result",
    "Run",
    "Sandbox",
    "TooLarge",
    "Tool",
    "Unauthorized",
    "Unavailable",
    "Unsupported",
]


def __getattr__(name: str) -> object:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
