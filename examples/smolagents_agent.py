"""An agent of smolagents whose code runs in a sandbox: pip install 'fumehood[smolagents]'.

The model is a script, so that the example needs no key. Use InferenceClientModel() or another model in its place.
"""

from smolagents import ChatMessage, CodeAgent, Model, tool

from fumehood.smolagents import FumehoodExecutor

STEPS = ["totals = [double(n) for n in (10, 11)]\nprint(totals)", "final_answer(sum(totals))"]


class Script(Model):
    """A model that answers with the steps of a script."""

    def generate(self, messages, **kwargs):
        return ChatMessage(role="assistant", content=f"Thought: go on.\n<code>\n{STEPS.pop(0)}\n</code>")


@tool
def double(number: int) -> int:
    """Double a number.

    Args:
        number: The number.
    """
    return 2 * number


with CodeAgent(tools=[double], model=Script(), executor=FumehoodExecutor()) as agent:
    print(agent.run("Double 10 and 11, and add them."))  # 42
