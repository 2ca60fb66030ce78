"""A LangChain tool that runs code: pip install 'fumehood[langchain]'.

from fumehood.langchain import run_code_tool

agent = create_agent(model, tools=[run_code_tool()])
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from langchain_core.tools import StructuredTool

from fumehood._sync._client import Client

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Unpack

    from fumehood._arguments import OneShotArguments
    from fumehood._models._runs import Answer
    from fumehood._sync._sandbox import Sandbox

DESCRIPTION = "Run {language} code in a sandbox. Print what you want to see. {state} New files are returned."
STATE = {True: "Variables and files stay for later calls.", False: "Each call starts in a new sandbox."}


def run_code_tool(
    sandbox: Sandbox | None = None,
    *,
    server: str | None = None,
    key: str | None = None,
    language: str = "python",
    name: str = "run_code",
    description: str | None = None,
    **arguments: Unpack[OneShotArguments],
) -> StructuredTool:
    """Return a tool that runs code and returns {success, output, error, files}: files are base64 by path.

    Each call gets a fresh sandbox of a server, by default of one that this program starts. With a sandbox, calls share
    its variables and files. The arguments are those of Client.run, or of Sandbox.run: packages, timeout_s, limits, ...
    return_files has patterns of the files to return, by default of all.
    """
    run: Callable[..., Answer] = sandbox.run if sandbox else Client(server, key).run
    options = {"language": language, "return_files": ["**"], **arguments}

    def run_code(code: str) -> dict[str, Any]:
        return outcome(run(code, **options))

    text = description or DESCRIPTION.format(language=language, state=STATE[sandbox is not None])
    return StructuredTool.from_function(run_code, name=name, description=text)


def outcome(answer: Answer) -> dict[str, Any]:
    """Return an answer in the form of POST /execute, and with the value of the last expression in the output."""
    output = answer.stdout + answer.stderr
    if answer.text is not None:
        output += ("\n" if output and not output.endswith("\n") else "") + answer.text + "\n"
    error = None if answer.ok else answer.hint or answer.status
    if answer.exception and not answer.ok:
        error = f"{answer.exception.name}: {answer.exception.value}".removesuffix(": ")
    files = {file.path: base64.b64encode(file.data).decode() for file in answer.files}
    return {"success": answer.ok, "output": output, "error": error, "files": files}
