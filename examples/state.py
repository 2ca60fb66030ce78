"""Each step of an agent runs in a fresh sandbox, and continues with the variables of the step before."""

from fumehood import Sandbox

# What a model wrote, step by step.
STEPS = [
    "prices = {'apples': 2, 'pears': 3}",
    "def total(order):\n    return sum(prices[name] * count for name, count in order.items())",
    "total({'apples': 6, 'pears': 10})",
]

document = None
for step in STEPS:
    with Sandbox() as sandbox:
        if document:
            sandbox.load(document)
        answer = sandbox.run(step)
        document = sandbox.export()
print(answer.text)
