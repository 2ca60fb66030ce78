"""smolagents' CodeAgent with a scripted model. Its code runs in a sandbox."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator

import PIL.Image
import pytest
from smolagents import ChatMessage, CodeAgent, Model, Tool, tool
from smolagents.monitoring import LogLevel
from smolagents.utils import AgentError

from fumehood import NotFound
from fumehood.smolagents import FumehoodExecutor

PICTURE = io.BytesIO()
PIL.Image.new("RGB", (2, 1)).save(PICTURE, "PNG")


class Script(Model):
    """A model that answers with the steps of a script, and keeps what it is asked."""

    def __init__(self, *steps: str) -> None:
        super().__init__(model_id="script")
        self.steps = list(steps)
        self.asked: list[str] = []

    def generate(self, messages, **_) -> ChatMessage:
        self.asked.append(messages[-1].content[0]["text"])
        return ChatMessage(role="assistant", content=f"Thought: next.\n<code>\n{self.steps.pop(0)}\n</code>")


@pytest.fixture
def executor(server) -> Iterator[FumehoodExecutor]:
    executor = FumehoodExecutor(server=server.address)
    yield executor
    executor.cleanup()


Run = Callable[..., tuple[object, Script]]


@pytest.fixture
def agent(executor) -> Run:
    def run(*steps: str, tools: list[Tool] = (), **arguments) -> tuple[object, Script]:
        script = Script(*steps)
        agent = CodeAgent(tools=list(tools), model=script, executor=executor, verbosity_level=LogLevel.OFF)
        return agent.run("task", **arguments), script

    return run


@pytest.mark.smoke
def test_steps_share_state(agent):
    answer, script = agent("x = 41\nprint('seen', x)", "x += 1\nx", "final_answer({'x': x, 'pair': (1, 2)})")
    assert answer == {"x": 42, "pair": (1, 2)}
    assert "Execution logs:\nseen 41\n" in script.asked[1]
    assert "Last output from code snippet:\n42" in script.asked[2]


def test_errors_are_observations(agent):
    answer, script = agent("print('before')\n1/0", "final_answer('done')")
    assert answer == "done"
    assert "before\n" in script.asked[1]
    assert "ZeroDivisionError: division by zero" in script.asked[1]


def test_timeout(server):
    executor = FumehoodExecutor(server=server.address, timeout_s=0.3)
    executor("x = 1")
    with pytest.raises(AgentError, match="status timeout"):
        executor("while True: pass")
    assert executor("x").output == "1"
    executor.cleanup()


def test_tools_are_sent_as_source(agent):
    @tool
    def area(width: float, height: float = 2.0) -> float:
        """Compute an area.

        Args:
            width: In metres.
            height: In metres.
        """
        import math

        return math.fsum([width] * int(height))

    class Counter(Tool):
        name = "count"
        description = "Counts its calls."
        inputs = {"step": {"type": "integer", "description": "How much to add."}}  # noqa: RUF012
        output_type = "integer"

        def __init__(self) -> None:
            super().__init__()
            self.total = 0

        def forward(self, step: int) -> int:
            self.total += step
            return self.total

    answer, _ = agent(
        "a = area(3)\ncount(2)", "final_answer([a, area(2, height=1), count(3)])", tools=[area, Counter()]
    )
    assert answer == [6.0, 2.0, 5]


def test_imports_are_installed(indexed):
    @tool
    def shout(text: str) -> str:
        """Shout.

        Args:
            text: Words.
        """
        import toolpack

        return toolpack.NAME + text

    executor = FumehoodExecutor(["json", "demopack.part"], server=indexed("demopack", "toolpack").address)
    assert executor("json.dumps(demopack.NAME)").output == "'\"demopack\"'"
    executor.send_tools({"shout": shout})
    assert executor("shout('!')").output == "'toolpack!'"
    with pytest.raises(AgentError, match="No module named 'starpack'"):
        executor("import starpack")
    executor.cleanup()


def test_all_imports_are_installed(indexed):
    executor = FumehoodExecutor(["*"], server=indexed("demopack").address)
    assert executor("import demopack.part\ndemopack.NAME").output == "'demopack'"
    executor.cleanup()


def test_variables(agent):
    answer, _ = agent("final_answer(names[0] + data.decode())", additional_args={"names": ["a"], "data": b"b"})
    assert answer == "ab"


def test_large_final_answer(agent):
    answer, _ = agent("final_answer('é' * 1_000_000)")
    assert answer == "é" * 1_000_000


def test_images(executor):
    show = f"""
class Picture:
    def _repr_png_(self): return {PICTURE.getvalue()!r}
Picture()
"""
    output = executor(show).output
    assert isinstance(output, PIL.Image.Image)
    assert output.size == (2, 1)
    output = executor(show.replace("\nPicture()", "\ndisplay(Picture())\nNone")).output
    assert output.size == (2, 1)


def test_only_values_return(agent):
    answer, script = agent("final_answer(lambda: 1)", "final_answer('text')")
    assert answer == "text"
    assert "SerializationError: Cannot safely serialize object" in script.asked[1]


def test_an_agent_runs_twice(agent, executor):
    answer, _ = agent("x = 1\nfinal_answer(x)")
    assert answer == 1
    script = Script("final_answer(1)", "final_answer(2)")
    agent = CodeAgent(tools=[], model=script, executor=executor, verbosity_level=LogLevel.OFF)
    assert [agent.run("first"), agent.run("second")] == [1, 2]


def test_the_sandbox_ends_with_the_agent(server):
    executor = FumehoodExecutor(server=server.address)
    with CodeAgent(tools=[], model=Script("final_answer(1)"), executor=executor, verbosity_level=LogLevel.OFF) as agent:
        assert agent.run("task") == 1
    with pytest.raises(NotFound):
        executor("1")


KEY = "of this program"


@pytest.mark.smoke
def test_tools_are_called_back(agent):
    """A tool without source that can be sent runs in this program; a failure is one of the code."""
    calls = []

    @tool
    def lookup(word: str, most: int | None = None) -> list[str]:
        """Look up a word.

        Args:
            word: The word.
            most: How many.
        """
        calls.append(KEY)
        if not word:
            raise LookupError("no word")
        return [word] * (most or 1)

    answer, script = agent(
        "print(lookup('a', most=2))\nkept = lookup", "lookup('')", "final_answer(kept(word='b'))", tools=[lookup]
    )
    assert answer == ["b"]
    assert "['a', 'a']" in script.asked[1]
    assert "ToolError: LookupError: no word" in script.asked[2]
    assert calls == [KEY] * 3


def test_host_tools(server):
    @tool
    def pid() -> int:
        """Return the id of the process."""
        import os

        return os.getpid()

    for names, same in ((), False), (["pid"], True):
        with CodeAgent(
            tools=[pid],
            model=Script("final_answer(pid())"),
            executor=FumehoodExecutor(server=server.address, host_tools=names),
            verbosity_level=LogLevel.OFF,
        ) as agent:
            assert (agent.run("task") == os.getpid()) is same
    executor = FumehoodExecutor(server=server.address, host_tools=["none"])
    with pytest.raises(ValueError, match="no tool is named none"):
        executor.send_tools({"pid": pid})
    executor.cleanup()


def test_managed_agent(executor):
    """An agent that another one manages runs in this program."""
    script = Script("final_answer('from the helper')")
    helper = CodeAgent(tools=[], model=script, name="helper", description="Helps.", verbosity_level=LogLevel.OFF)
    agent = CodeAgent(
        tools=[],
        managed_agents=[helper],
        model=Script("final_answer(helper(task='help'))"),
        executor=executor,
        verbosity_level=LogLevel.OFF,
    )
    assert "from the helper" in agent.run("task")
