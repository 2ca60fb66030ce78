"""Builds requests and judges answers. No I/O."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from pathlib import PurePath, PurePosixPath
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

from fumehood._errors import FumehoodError, Incompatible, InvalidRequest, Unavailable, error_of, problem_in
from fumehood._version import version

UNIX = "unix:"
LOOPBACK = ("localhost", "127.0.0.1", "::1")
RUN_HEADER = "fumehood-run-id"
EVENTS = {"accept": "text/event-stream"}

Content = str | bytes
FileContents = Mapping[str, Content] | Sequence[Mapping[str, Any]]


class Address(NamedTuple):
    """The address of a server."""

    text: str
    base: str  # of URLs, without a slash at the end
    socket: str | None = None  # path of a unix socket
    local: bool = False  # on this host: no proxy

    @staticmethod
    def parse(text: str) -> Address:
        """Return an address: http://HOST:PORT, https://HOST:PORT or unix:PATH."""
        if text.startswith(UNIX):
            return Address(text, "http://localhost", text.removeprefix(UNIX), local=True)
        parts = urlsplit(text)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
            given = "an address with a user" if "@" in text else repr(text[:100])  # it may have a password
            raise InvalidRequest(
                f"server: {given} is not the address of a server",
                "write http://HOST:PORT, https://HOST:PORT or unix:PATH",
            )
        return Address(text, text.rstrip("/"), local=parts.hostname in LOOPBACK)


def local_name(path: str, system: type[PurePath] = PurePath) -> PurePosixPath:
    """Return a path below a folder of a sandbox that names a file below a local folder, too.

    Hostile code chooses names. On Windows, a backslash separates folders, and a colon ends a drive.
    """
    inside, local = PurePosixPath(path), system(path)
    if local.anchor or ".." in local.parts or local.parts != inside.parts:
        raise FumehoodError(f"{path!r} is not the name of a file below a local folder")
    return inside


def sandbox_path(name: str, *steps: str) -> str:
    """Return the path of a sandbox, or of a part of it."""
    return "/v1/sandboxes/" + "/".join(quote(step, safe="") for step in (name, *steps))


def run_id(headers: Mapping[str, str]) -> str:
    """Return the id of the run whose events an answer streams."""
    if RUN_HEADER not in headers:
        raise Unavailable(
            f"the answer of the server has no header {RUN_HEADER}", "let proxies in front of the server pass it"
        )
    return headers[RUN_HEADER]


def body_of(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body of a request. Arguments that are None are left out; stdin, files and timeout_s are converted."""
    body = {name: value for name, value in arguments.items() if value is not None}
    if isinstance(body.get("stdin"), bytes):
        body["stdin_base64"] = base64.b64encode(body.pop("stdin")).decode()
    if "files" in body:
        body["files"] = file_list(body["files"])
    if "timeout_s" in body:
        body["limits"] = {**body.get("limits", {}), "timeout_s": body.pop("timeout_s")}
    return body


def file_list(files: FileContents) -> list[dict[str, Any]]:
    """Return files as the API has them: contents by path, or its own form."""
    if not isinstance(files, Mapping):
        return [dict(file) for file in files]
    return [
        {"path": path, "content": data}
        if isinstance(data, str)
        else {"path": path, "content_base64": base64.b64encode(data).decode()}
        for path, data in files.items()
    ]


def shell(command: str | Sequence[str]) -> list[str]:
    """Return the arguments of a command: a string is a line for the shell."""
    return ["/bin/sh", "-c", command] if isinstance(command, str) else list(command)


def refusal(status: int, reason: str, body: Any, retry_after: str | None) -> FumehoodError:
    """Return the error of an answer without success. body is its JSON, or None."""
    problem = problem_in(body)
    if problem is None:
        return Unavailable(
            f"the server answered {status} {reason}, which is not an answer of Fumehood",
            "check the address of the server",
        )
    wait = float(retry_after) if retry_after and retry_after.isdigit() else None
    return error_of(problem, wait)


# What a server says about a path or a field that it does not know.
UNKNOWN_PATH = "there is nothing at this path"
UNKNOWN_FIELD = "unknown field"


def may_be_older(error: FumehoodError) -> bool:
    """Return whether the server refused something that it may be too old for."""
    return error.message == UNKNOWN_PATH or UNKNOWN_FIELD in error.message


def incompatible(what: str, server_version: str) -> Incompatible:
    """Return the error of a server that is older or newer than this client."""
    return Incompatible(
        f"{what}; the server has version {server_version}, this client {version()}",
        "install the same version of both",
    )


class Backoff:
    """The waits between attempts to reach a server, for a limited time."""

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self.reset()

    def reset(self) -> None:
        """Begin anew, after a success."""
        self._next, self._waited = 0.05, 0.0

    def next(self) -> float:
        """Return the seconds to wait; infinity after the limit."""
        wait = self._next if self._waited < self._limit else math.inf
        self._waited += wait
        self._next = min(self._next * 2, 1.0)
        return wait
