"""An agent whose tools are those of an MCP server: pip install mcp, then python3 examples/mcp_client.py [FUMEHOOD].

The model is a script, so that the example needs no key.
"""

import asyncio
import sys

import mcp

# What a model calls, step by step.
STEPS = [
    ("write_file", {"path": "sales.csv", "content": "Oslo,20\nBergen,22\n"}),
    ("run_code", {"code": "rows = [line.split(',') for line in open('sales.csv')]\nlen(rows)"}),
    ("run_code", {"code": "sum(int(total) for city, total in rows)"}),
]


async def main(program):
    server = mcp.StdioServerParameters(command=program, args=["mcp"])
    async with mcp.Client(server) as client:
        print("tools:", ", ".join(tool.name for tool in (await client.list_tools()).tools))
        for tool, arguments in STEPS:
            answer = await client.call_tool(tool, arguments)
            print(f"{tool}: {answer.content[0].text}")  # the last one => 42


asyncio.run(main(*sys.argv[1:] or ["fumehood"]))
