"""The keyword arguments of runs that are not fields of the API as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from fumehood._models._requests import OneShotOptions, RunOptions

if TYPE_CHECKING:
    from collections.abc import Callable

    from fumehood._models._runs import Result
    from fumehood._tools import Tools
    from fumehood._wire import Content, FileContents


class Inputs(TypedDict, total=False):
    """What a program gets."""

    stdin: Content | None
    """Standard input. Code in a context takes none."""

    files: FileContents | None
    """Files to write to /workspace before the start: contents by path, or the form of the API."""

    tools: Tools | None
    """Functions that the code can call: functions of this program, Tool, or functions by name. Their arguments and
    answers are JSON."""

    timeout_s: float | None
    """Wall time in seconds. The default is the server's, 30 s."""


class Output(TypedDict, total=False):
    """Functions that receive the output of a program while it runs."""

    on_stdout: Callable[[str], object] | None
    """Receives each piece of stdout."""

    on_stderr: Callable[[str], object] | None
    """Receives each piece of stderr."""

    on_result: Callable[[Result], object] | None
    """Receives each displayed value."""

    on_progress: Callable[[str], object] | None
    """Receives a line for each step while packages are installed."""


class StartArguments(RunOptions, Inputs, total=False):
    """The arguments of a run in the background."""


class RunArguments(RunOptions, Inputs, Output, total=False):
    """The arguments of a run in a living sandbox."""


class OneShotArguments(OneShotOptions, Inputs, Output, total=False):
    """The arguments of a run in a fresh sandbox."""
