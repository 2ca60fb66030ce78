"""Runs the code of smolagents' CodeAgent in a sandbox: pip install 'fumehood[smolagents]'.

from fumehood.smolagents import FumehoodExecutor

agent = CodeAgent(tools=[...], model=model, executor=FumehoodExecutor())
"""

from __future__ import annotations

import inspect
import io
from typing import TYPE_CHECKING, Any

import PIL.Image
from smolagents import serialization
from smolagents.local_python_executor import CodeOutput
from smolagents.monitoring import AgentLogger, LogLevel
from smolagents.remote_executors import RemotePythonExecutor
from smolagents.tools import get_tools_definition_code
from smolagents.utils import AgentError

from fumehood._sync._sandbox import Sandbox
from fumehood._tools import Tool as CalledTool

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from smolagents import Tool
    from typing_extensions import Unpack

    from fumehood._models._requests import SandboxOptions
    from fumehood._models._runs import Answer


class FumehoodExecutor(RemotePythonExecutor):  # type: ignore[misc] # smolagents has no types
    """Executes the steps of an agent in one living sandbox, which keeps variables, imports and files between steps.

    The source of tools is sent to the sandbox. A tool whose source cannot be sent runs in this program: one that uses
    names from outside of it, a tool of an MCP server, a managed agent. Values travel as JSON, and nothing is unpickled.

    Args:
        additional_imports: Modules to install at the start: what the agent gets as additional_authorized_imports. With
            "*", each step installs what it imports.
        logger: Receives messages of the start and of failures. By default nothing is logged twice: the agent logs all
            steps.
        name: Name of the sandbox, which then stays after cleanup.
        server: Address of a server. The default is FUMEHOOD_SERVER, else a server that this program starts.
        key: API key, by default FUMEHOOD_KEY.
        timeout_s: Seconds of one step. The default is the server's, 30 s. Time in tools of this program does not count.
        host_tools: Names of further tools that run in this program, such as those that need its keys or connections.
        options: Further options of the sandbox: limits, network, env, ...

    """

    def __init__(
        self,
        additional_imports: Sequence[str] = (),
        logger: AgentLogger | None = None,
        *,
        name: str | None = None,
        server: str | None = None,
        key: str | None = None,
        timeout_s: float | None = None,
        host_tools: Iterable[str] = (),
        **options: Unpack[SandboxOptions],
    ) -> None:
        super().__init__(list(additional_imports), logger or AgentLogger(level=LogLevel.OFF))
        self._timeout_s = timeout_s
        self._host_tools = set(host_tools)
        self._called: list[CalledTool] = []
        self._packages = ["auto"] if "*" in additional_imports else None
        self.sandbox = Sandbox(name, server=server, key=key, **options)
        try:
            self.installed_packages = self.install_packages(self.additional_imports)
        except BaseException:
            self.cleanup()
            raise

    def run_code_raise_errors(self, code: str) -> CodeOutput:
        """Run code, and return its value and output. It raises AgentError if the code fails."""
        return self._run(code, self._packages)

    def _run(self, code: str, packages: list[str] | None) -> CodeOutput:
        answer = self.sandbox.run(code, timeout_s=self._timeout_s, packages=packages, tools=self._called)
        return self._output_of(answer)

    def send_tools(self, tools: dict[str, Tool]) -> None:
        """Define the tools in the sandbox, and install what their source imports."""
        if unknown := self._host_tools - set(tools):
            raise ValueError(f"host_tools: no tool is named {', '.join(sorted(unknown))}")
        sent = {name: tool for name, tool in tools.items() if name not in self._host_tools and has_source(name, tool)}
        self._called = [called_tool(name, tool) for name, tool in tools.items() if name not in sent]
        required = {name for tool in sent.values() for name in tool.to_dict()["requirements"]} - {"smolagents"}
        code = get_tools_definition_code(sent)
        if "final_answer" in sent:
            code += final_answer_code()
        self._run(code, ["auto"] if required else None)

    def install_packages(self, additional_imports: list[str]) -> list[str]:
        """Install the packages of modules, and import these. A name that no module can have is that of a package."""
        modules = [name.removesuffix(".*") for name in additional_imports if name != "*"]
        packages = [name for name in modules if not name.replace(".", "").isidentifier()]
        code = "\n".join(f"import {name}" for name in modules if name not in packages)
        if modules:
            self._run(code or "pass", ["auto", *packages])
        return additional_imports

    def _output_of(self, answer: Answer) -> CodeOutput:
        logs = answer.stdout + answer.stderr
        error = answer.exception
        if error and error.name.endswith(self.FINAL_ANSWER_EXCEPTION):
            value = self._deserialize_final_answer(error.value)
            return CodeOutput(output=value, logs=answer.stdout, is_final_answer=True)
        if not answer.ok:
            failed = error and answer.status == "failed"  # logs have the traceback
            reason = "" if failed else f"The code ended with status {answer.status}. {answer.hint or ''}"
            raise AgentError(logs + reason, self.logger)
        return CodeOutput(output=value_of(answer), logs=logs, is_final_answer=False)

    def cleanup(self) -> None:
        """Remove the sandbox, unless it has a name."""
        self.sandbox.close()


def has_source(name: str, tool: Tool) -> bool:
    """Report whether a tool can be sent as source."""
    try:
        tool.to_dict()
        get_tools_definition_code({name: tool})
    except Exception:  # of many types: no source, names from outside, arguments of __init__
        return False
    return True


def called_tool(name: str, tool: Tool) -> CalledTool:
    """Return the tool that code in the sandbox calls, and that runs here."""
    properties = {word: input_schema(given) for word, given in tool.inputs.items()}
    required = [word for word, given in tool.inputs.items() if not given.get("nullable")]
    schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return CalledTool(name, tool, tool.description, schema)


def input_schema(given: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema of an input. One of a type that JSON does not have allows any value."""
    kinds = [given["type"]] if isinstance(given["type"], str) else list(given["type"])
    if not set(kinds) <= {"string", "boolean", "integer", "number", "array", "object", "null"}:
        return {}
    return {"type": [*kinds, "null"] if given.get("nullable") else kinds}


FINAL_ANSWER = """
def _as_exception(tool):
    module = {{}}
    exec({serialization!r}, module)

    class FinalAnswerException(BaseException):
        pass

    def final_answer(*args, **kwargs):
        raise FinalAnswerException(module["SafeSerializer"].dumps(tool(*args, **kwargs), allow_pickle=False))

    return final_answer

final_answer = _as_exception(final_answer)
"""


def final_answer_code() -> str:
    """Return the code that makes final_answer end a step with an exception, whose text is the answer as JSON.

    RemotePythonExecutor replaces the tool on the host instead. Its replacement imports PIL and numpy, which a sandbox
    may not have.
    """
    return FINAL_ANSWER.format(serialization=inspect.getsource(serialization))


def value_of(answer: Answer) -> Any:
    """Return the value of the last expression: a picture if it has that form, else its text, or the last picture."""
    result = answer.result
    picture = (result and (result.png or result.jpeg)) or (answer.png if answer.text is None else None)
    if picture:
        return PIL.Image.open(io.BytesIO(picture))
    return answer.text
