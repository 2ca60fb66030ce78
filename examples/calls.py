"""Code in a sandbox without a network calls a function of this program."""

from fumehood import Sandbox

STOCK = {"apples": 30, "pears": 12}


def stock(fruit: str) -> int:
    """Return how many pieces are in stock."""
    return STOCK[fruit]


# What a model wrote.
CODE = """
try:
    stock("plums")
except ToolError as e:
    print("no plums:", e)
stock("apples") + stock("pears")
"""

with Sandbox() as sandbox:
    answer = sandbox.run(CODE, tools=[stock])
    print(answer.stdout + answer.text)
