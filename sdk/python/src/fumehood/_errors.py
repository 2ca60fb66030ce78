"""Typed errors. A failed program is never one of them: it is a status of its answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fumehood._decode import DecodeError, decode
from fumehood._models._runs import Problem

if TYPE_CHECKING:
    from fumehood._models._runs import Hint


class FumehoodError(Exception):
    """Fumehood failed, or cannot serve a request.

    Attributes:
        message: What failed and why.
        hint: The fix in one sentence, or None.
        kind: The class of the failure, as the API names it.
        problem: The server's whole answer, or None if the client found the failure.
        retry_after: Seconds until it may work, or None if unknown.

    """

    kind = "internal"

    def __init__(
        self,
        message: str,
        hint: str | None = None,
        *,
        problem: Problem | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.problem = problem
        self.retry_after = retry_after

    @property
    def hints(self) -> list[Hint]:
        """The hint in parts, with their facts."""
        return (self.problem.hints if self.problem else None) or []

    @property
    def param(self) -> str | None:
        """The wrong part of the request, or None."""
        return self.problem.param if self.problem else None

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class InternalError(FumehoodError):
    """The server has a defect, or its host failed. Its log has the details under problem.request_id."""


class InvalidRequest(FumehoodError):  # noqa: N818 - the kind is the name
    """The request is wrong: fix it and send it again."""

    kind = "invalid"


class NotFound(FumehoodError):  # noqa: N818
    """No such sandbox, run, context, language or file."""

    kind = "not_found"


class AlreadyExists(FumehoodError):  # noqa: N818
    """The name is taken."""

    kind = "exists"


class Busy(FumehoodError):  # noqa: N818
    """All slots and the queue are full. Retry after retry_after seconds."""

    kind = "busy"


class QuotaExceeded(FumehoodError):  # noqa: N818
    """The caller may not have more of this."""

    kind = "quota"


class Unauthorized(FumehoodError):  # noqa: N818
    """The key is missing or wrong."""

    kind = "unauthorized"


class Unsupported(FumehoodError):  # noqa: N818
    """This host, backend or server cannot do it."""

    kind = "unsupported"


class Unavailable(FumehoodError):  # noqa: N818
    """It does not work now: no server is reachable, it starts or drains, or a sandbox does not answer."""

    kind = "unavailable"


class TooLarge(FumehoodError):  # noqa: N818
    """A body, a file or a name is over its limit."""

    kind = "too_large"


class Incompatible(Unsupported):
    """The server is older or newer than this client, and lacks what the call needs."""


KINDS: dict[str, type[FumehoodError]] = {
    kind.kind: kind
    for kind in (
        InternalError,
        InvalidRequest,
        NotFound,
        AlreadyExists,
        Busy,
        QuotaExceeded,
        Unauthorized,
        Unsupported,
        Unavailable,
        TooLarge,
    )
}


def error_of(problem: Problem, retry_after: float | None = None) -> FumehoodError:
    """Return the error of a problem. A kind that this client does not know is an InternalError."""
    kind = KINDS.get(problem.kind, InternalError)
    return kind(problem.detail, problem.hint, problem=problem, retry_after=retry_after)


def problem_in(value: Any) -> Problem | None:
    """Return the problem in a JSON value, or None if it is not one."""
    try:
        return decode(Problem, value)
    except DecodeError:
        return None
