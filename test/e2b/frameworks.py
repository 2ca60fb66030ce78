"""Programs that use E2B, unmodified: smolagents' executor, and LiteLLM's sandbox, which has its own client."""

import asyncio
import os

import names  # noqa: F401 (its proxy)
from smolagents import CodeAgent, Model
from smolagents.models import ChatMessage, MessageRole

os.environ["AIOHTTP_TRUST_ENV"] = "True"
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"


class Scripted(Model):
    """Answers with code, one after the other."""

    steps = ["x = [1, 2]\nprint('seen', len(x))", "import six\nfinal_answer({'sum': sum(x), 'six': six.__name__})"]

    def __init__(self):
        super().__init__()
        self.calls = 0

    def generate(self, messages, **options):
        code = self.steps[self.calls]
        self.calls += 1
        return ChatMessage(role=MessageRole.ASSISTANT, content=f"Thought: go on.\n<code>\n{code}\n</code>")


def smolagents():
    with CodeAgent([], Scripted(), executor_type="e2b", additional_authorized_imports=["six"], verbosity_level=0) as a:
        assert a.run("sum") == {"sum": 3, "six": "six"}
        assert any("seen 2" in str(step.observations) for step in a.memory.steps if hasattr(step, "observations"))


async def litellm():
    from litellm.llms.e2b.sandbox.transformation import E2BSandboxConfig

    e2b, base = E2BSandboxConfig(), "https://api." + os.environ["E2B_DOMAIN"]
    handle = await e2b.acreate_sandbox(api_base=base, metadata={"a": "b"})
    done = await e2b.arun_code(container=handle, code="import os; print(os.environ['V']); 6 * 7", env_vars={"V": "v"})
    assert done.stdout == "v\n" and done.results[0]["text"] == "42" and done.error is None, done
    assert (await e2b.arun_code(container=handle, code="1/0")).error["name"] == "ZeroDivisionError"
    assert await e2b.adelete_sandbox(container=handle) and not await e2b.adelete_sandbox(container=handle)


if __name__ == "__main__":
    smolagents()
    print("passed smolagents")
    asyncio.run(litellm())
    print("passed LiteLLM")
