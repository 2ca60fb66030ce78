"""Answers calls of Anthropic's Messages API: of run_code, as `fumehood tools --format anthropic` defines it, and bash.

from fumehood.anthropic import answer_call

with Sandbox() as s:
    for block in message.content:
        if block.type == "tool_use":
            results.append(answer_call(s, block))

A result has the fields of Anthropic's own code execution: stdout, stderr, return_code. It needs no further package.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

from fumehood._arguments import Output
from fumehood._errors import Busy, FumehoodError, InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fumehood._models._runs import Answer
    from fumehood._sync._sandbox import Sandbox

IMAGES = ("image/png", "image/jpeg")  # of the values that code displays

# The names of a call, and the prefix of the types of its result.
CODE, BASH = "code_execution", "bash_code_execution"
PREFIX = {"run_code": CODE, "code_execution": CODE, "bash": BASH, "bash_code_execution": BASH}
OURS = ("tools", *Output.__annotations__)  # arguments of run that take functions: not for a model
RETURN_CODE = 137  # of a program that has none, as of SIGKILL in a shell


def answer_call(sandbox: Sandbox, block: Any) -> dict[str, Any]:
    """Run the code or the command of a call, and return the block that answers it.

    block is a tool_use or server_tool_use block, as an object of Anthropic's SDK or as a mapping. Its name is run_code
    or code_execution, with code in its input, or bash or bash_code_execution, with a command. Variables and files stay
    for later calls. Images that the code displays follow the result of a tool_use block.
    """
    call = block if isinstance(block, dict) else block.model_dump()
    prefix = PREFIX.get(call["name"])
    if prefix is None:
        raise InvalidRequest(f"{call['name']!r} is not a tool of fumehood.anthropic", "answer it yourself")
    answer: Answer | None = None
    try:
        answer = run(sandbox, prefix, call["input"])
        result = result_of(answer, prefix)
    except FumehoodError as e:
        result = {"type": f"{prefix}_tool_result_error", "error_code": code_of(e)}
        if call["type"] == "tool_use":
            result["error_message"] = str(e)
    if call["type"] == "server_tool_use":
        return {"type": f"{prefix}_tool_result", "tool_use_id": call["id"], "content": result}
    content = [{"type": "text", "text": json.dumps(result, ensure_ascii=False)}, *(displayed(answer) if answer else ())]
    failed = answer is None or not answer.ok
    return {"type": "tool_result", "tool_use_id": call["id"], "content": content, "is_error": failed}


def run(sandbox: Sandbox, prefix: str, given: Mapping[str, Any]) -> Answer:
    """Run the input of a call."""
    if prefix == CODE:
        options = cast("Any", {name: value for name, value in given.items() if name not in ("code", *OURS)})
        return sandbox.run(str(given.get("code", "")), **options)
    if given.get("restart"):  # of Anthropic's bash tool: each command has a new shell here
        return sandbox.exec(":")
    return sandbox.exec(str(given.get("command", "")))


def result_of(answer: Answer, prefix: str = CODE) -> dict[str, Any]:
    """Return an answer in the form of Anthropic's code execution."""
    stdout, stderr = answer.stdout, answer.stderr
    if answer.text is not None:  # the value of the last expression
        stdout += ("\n" if stdout and not stdout.endswith("\n") else "") + answer.text + "\n"
    traceback = answer.exception.traceback if answer.exception else None
    if traceback and traceback not in stderr:
        stderr += traceback
    if not answer.ok and answer.hint:
        stderr += ("\n" if stderr and not stderr.endswith("\n") else "") + answer.hint + "\n"
    code = RETURN_CODE if answer.exit_code is None else answer.exit_code
    if not answer.ok and code == 0:
        code = 1
    kind = f"{prefix}_result"
    return {"type": kind, "stdout": stdout, "stderr": stderr, "return_code": code, "content": []}


def displayed(answer: Answer) -> list[dict[str, Any]]:
    """Return the images among the displayed values as blocks."""
    blocks = []
    for value in answer.results:
        for media in IMAGES:
            if media in value.data:
                source = {"type": "base64", "media_type": media, "data": "".join(value.data[media].split())}
                blocks.append({"type": "image", "source": source})
                break
    return blocks


def code_of(error: FumehoodError) -> str:
    """Return Anthropic's code for an error."""
    if isinstance(error, Busy):
        return "too_many_requests"
    return "invalid_tool_input" if isinstance(error, InvalidRequest) else "unavailable"
