"""A container of OpenAI's SDK on a Fumehood server: pip install openai, and set OPENAI_BASE_URL and OPENAI_API_KEY.

The model is a script, so that the example needs no key of one.
"""

from openai import OpenAI
from openai.types.responses import ResponseCodeInterpreterToolCall

# What a model wrote, step by step.
STEPS = [
    "rows = [line.split(',') for line in open('sales.csv')]",
    "sum(int(total) for city, total in rows)",
]

client = OpenAI()
container = client.containers.create(name="sales", expires_after={"anchor": "last_active_at", "minutes": 5})
client.containers.files.create(container.id, file=("sales.csv", b"Oslo,20\nBergen,22\n"))
for step in STEPS:
    done = client.post(
        f"/containers/{container.id}/code_interpreter_calls",
        body={"code": step},
        cast_to=ResponseCodeInterpreterToolCall,
    )
    print([output.logs for output in done.outputs])  # at last ['42']
client.containers.delete(container.id)
