"""The LangChain tool, the backend of Deep Agents, and the provider for Deep Agents Code."""

from __future__ import annotations

import asyncio
import base64
import json

import pytest
from deepagents import create_deep_agent
from deepagents_code.integrations.sandbox_provider import SandboxNotFoundError
from deepagents_code.integrations.sandbox_registry import SandboxRegistry
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolCall, ToolMessage

from fumehood import Client, Sandbox
from fumehood.deepagents import FumehoodSandbox
from fumehood.langchain import run_code_tool


def call(name: str, **arguments: object) -> ToolCall:
    return ToolCall(type="tool_call", id="1", name=name, args=arguments)


class Script(GenericFakeChatModel):
    """A model that answers with the messages of a script."""

    def bind_tools(self, tools, **_) -> Script:
        return self


def script(*calls: ToolCall) -> Script:
    """Return a model that makes these calls and then answers."""
    return Script(messages=iter([*(AIMessage("", tool_calls=[one]) for one in calls), AIMessage("done")]))


@pytest.mark.smoke
def test_the_tool(server):
    tool = run_code_tool(server=server.address)
    code = "open('a.bin', 'wb').write(b'\\xff')\nimport sys; print('out'); print('err', file=sys.stderr)"
    answer = tool.invoke({"code": code})
    files = {"a.bin": base64.b64encode(b"\xff").decode()}
    assert answer == {"success": True, "output": "out\nerr\n", "error": None, "files": files}
    message = tool.invoke(call("run_code", code="1/0"))
    assert isinstance(message, ToolMessage)
    answer = json.loads(message.content)
    assert (answer["success"], answer["error"], answer["files"]) == (False, "ZeroDivisionError: division by zero", {})
    assert "Traceback" in answer["output"]
    assert asyncio.run(tool.ainvoke({"code": "print(1)"}))["output"] == "1\n"
    assert list(tool.args) == ["code"]


def test_the_tool_with_a_sandbox(sandbox):
    tool = run_code_tool(sandbox, timeout_s=0.5, return_files=["*.txt"])
    tool.invoke({"code": "x = 41"})
    assert tool.invoke({"code": "open('a.txt', 'w').write('1'); open('b', 'w').write('2'); x + 1"}) == {
        "success": True,
        "output": "42\n",
        "error": None,
        "files": {"a.txt": "MQ=="},
    }
    answer = tool.invoke({"code": "while True: pass"})
    assert not answer["success"]
    assert tool.invoke({"code": "x"})["output"] == "41\n"


@pytest.mark.smoke
def test_a_deep_agent(server):
    with FumehoodSandbox(server=server.address) as backend:
        write = call("write_file", file_path="/workspace/a.txt", content="41")
        execute = call("execute", command="echo $(( $(cat a.txt) + 1 )); echo err >&2; exit 3")
        agent = create_deep_agent(model=script(write, execute), backend=backend)
        messages = agent.invoke({"messages": [{"role": "user", "content": "task"}]})["messages"]
        shown = [message.content for message in messages if isinstance(message, ToolMessage)]
        assert messages[-1].content == "done"
        assert "42\nerr\n" in shown[1]
        assert "exit code 3" in shown[1]


def test_commands_that_end_otherwise(server):
    with FumehoodSandbox(server=server.address, timeout_s=0.3) as backend:
        late = backend.execute("echo a; sleep 60")
        assert late.output.startswith("a\n\n[status timeout: ")
        assert backend.execute("sleep 0.5; echo b", timeout=60).output == "b\n"
        assert backend.id == backend.sandbox.id


def test_the_provider(server, monkeypatch):
    monkeypatch.setenv("FUMEHOOD_SERVER", server.address)
    registry = SandboxRegistry()
    assert "fumehood" in registry.available_providers()
    assert registry.get_metadata("fumehood").working_dir == "/workspace"
    provider = registry.create_provider("fumehood")
    backend = provider.get_or_create(env={"X": "y"})
    assert backend.execute("echo $X").output == "y\n"
    again = asyncio.run(provider.aget_or_create(sandbox_id=backend.id))
    assert again.execute("pwd").output == "/workspace\n"
    provider.delete(sandbox_id=backend.id)
    provider.delete(sandbox_id=backend.id)
    with pytest.raises(SandboxNotFoundError):
        provider.get_or_create(sandbox_id=backend.id)
    with Client() as client, Sandbox("kept") as kept:
        assert provider.get_or_create(sandbox_id="kept").id == "kept"
        client.get("kept").remove()
        assert kept.name == "kept"
