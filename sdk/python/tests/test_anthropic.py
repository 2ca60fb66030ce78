"""Answers of calls of Anthropic's Messages API, as the types of its SDK have them."""

from __future__ import annotations

import base64
import json
import subprocess

import pytest
from anthropic.types import ToolParam, ToolResultBlockParam, ToolUseBlock
from anthropic.types.beta import (
    BetaBashCodeExecutionToolResultBlock,
    BetaCodeExecutionToolResultBlock,
    BetaServerToolUseBlock,
)
from pydantic import TypeAdapter

from conftest import PROGRAM
from fumehood.anthropic import answer_call

PNG = b"\x89PNG\r\n\x1a\n"


def use(name: str, **given: object) -> ToolUseBlock:
    return ToolUseBlock(id="1", type="tool_use", name=name, input=given)


def told(block: dict) -> dict:
    """Return the result in a block, which must be one of the API."""
    TypeAdapter(ToolResultBlockParam).validate_python(block)
    return json.loads(block["content"][0]["text"])


def test_the_tool(sandbox):
    tool = json.loads(subprocess.check_output([PROGRAM, "tools", "--format", "anthropic"]))
    TypeAdapter(ToolParam).validate_python(tool)
    answer_call(sandbox, use(tool["name"], code="x = 41"))
    block = answer_call(sandbox, use(tool["name"], code="print('a')\nx + 1"))
    result = {"type": "code_execution_result", "stdout": "a\n42\n", "stderr": "", "return_code": 0, "content": []}
    assert told(block) == result
    assert block["is_error"] is False
    failed = answer_call(sandbox, use(tool["name"], code="1/0"))
    assert failed["is_error"]
    assert told(failed)["return_code"] == 1
    assert told(failed)["stderr"].count("ZeroDivisionError: division by zero") >= 1
    shell = told(answer_call(sandbox, use(tool["name"], code="exit 3", language="bash")))
    assert shell["return_code"] == 3


def test_images(sandbox):
    code = f"class P:\n  def _repr_png_(self): return {PNG!r}\nP()"
    block = answer_call(sandbox, use("code_execution", code=code))
    source = block["content"][1]["source"]
    assert (source["media_type"], base64.b64decode(source["data"])) == ("image/png", PNG)
    told(block)


def test_bash(sandbox):
    result = told(answer_call(sandbox, use("bash", command="echo a; echo b >&2; exit 4")))
    assert result == {
        "type": "bash_code_execution_result",
        "stdout": "a\n",
        "stderr": "b\n",
        "return_code": 4,
        "content": [],
    }
    assert told(answer_call(sandbox, use("bash", restart=True)))["return_code"] == 0


def test_server_tools(sandbox):
    def answer(name: str, **given: object) -> dict:
        return answer_call(sandbox, BetaServerToolUseBlock(id="2", type="server_tool_use", name=name, input=given))

    code = BetaCodeExecutionToolResultBlock.model_validate(answer("code_execution", code="print(6 * 7)"))
    assert (code.tool_use_id, code.content.stdout) == ("2", "42\n")
    bash = BetaBashCodeExecutionToolResultBlock.model_validate(answer("bash_code_execution", command="echo a"))
    assert bash.content.stdout == "a\n"
    refused = BetaCodeExecutionToolResultBlock.model_validate(answer("code_execution", code="1", language="none"))
    assert refused.content.error_code == "invalid_tool_input"


def test_errors(sandbox):
    with pytest.raises(Exception, match="not a tool"):
        answer_call(sandbox, use("search"))
    sandbox.remove()
    block = answer_call(sandbox, use("run_code", code="1"))
    assert block["is_error"]
    assert told(block)["error_code"] == "unavailable"
