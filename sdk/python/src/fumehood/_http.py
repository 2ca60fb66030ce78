"""The names of httpx, which is imported with the first connection: it takes most of the time of an import."""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    import httpx  # noqa: PLC0415 - slow to import

    value = getattr(httpx, name)
    globals()[name] = value
    return value
