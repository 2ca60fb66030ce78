"""An agent of Deep Agents whose files and commands are in a sandbox: pip install 'fumehood[deepagents]'.

The model is a script, so that the example needs no key. Use init_chat_model(...) in its place.
"""

from deepagents import create_deep_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage

from fumehood.deepagents import FumehoodSandbox


def call(name, **arguments):
    """Return the message of a model that calls a tool."""
    return AIMessage("", tool_calls=[{"type": "tool_call", "id": "1", "name": name, "args": arguments}])


class Script(GenericFakeChatModel):
    """A model that answers with the messages of a script."""

    def bind_tools(self, tools, **kwargs):
        return self


STEPS = [
    call("write_file", file_path="/workspace/answer.py", content="print(6 * 7)\n"),
    call("execute", command="python3 answer.py"),
    AIMessage("The program prints 42."),
]

with FumehoodSandbox() as backend:
    agent = create_deep_agent(Script(messages=iter(STEPS)), backend=backend)
    for message in agent.invoke({"messages": [{"role": "user", "content": "Multiply 6 by 7."}]})["messages"]:
        print(f"{message.type}: {message.content}")
