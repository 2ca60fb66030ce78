"""An agent of LangChain with a tool that runs code: pip install 'fumehood[langchain]' langchain.

The model is a script, so that the example needs no key. Use init_chat_model(...) in its place.
"""

from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage

from fumehood.langchain import run_code_tool

CALL = {"type": "tool_call", "id": "1", "name": "run_code", "args": {"code": "print(6 * 7)"}}


class Script(GenericFakeChatModel):
    """A model that answers with the messages of a script."""

    def bind_tools(self, tools, **kwargs):
        return self


model = Script(messages=iter([AIMessage("", tool_calls=[CALL]), AIMessage("It is 42.")]))
agent = create_agent(model, tools=[run_code_tool()])
for message in agent.invoke({"messages": [{"role": "user", "content": "What is 6 times 7?"}]})["messages"]:
    print(f"{message.type}: {message.content}")
