"""Uses Fumehood through the published Python client of MCP, over stdio or HTTP, as an agent would.

client.py PROGRAM              starts `PROGRAM mcp` and speaks over its stdio
client.py http://HOST/mcp KEY  speaks streamable HTTP
"""

import asyncio
import base64
import contextlib
import struct
import sys
import zlib

import mcp
from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client

PICTURE = """
class Picture:
    def _repr_png_(self):
        import base64
        return base64.b64decode(%r)
Picture()
"""


def png():
    """A picture of one pixel."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0\0")) + chunk(b"IEND", b"")


@contextlib.asynccontextmanager
async def connect(target, key):
    if not target.startswith("http"):
        async with mcp.Client(mcp.StdioServerParameters(command=target, args=["mcp"])) as client:
            yield client
        return
    async with create_mcp_http_client(headers={"Authorization": "Bearer " + key}) as http:
        async with mcp.Client(streamable_http_client(target, http_client=http)) as client:
            yield client


async def main(target, key=""):
    async with connect(target, key) as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
        assert {"run_code", "run_command", "read_file", "write_file", "list_files", "reset_sandbox"} <= names, names

        async def call(tool, **arguments):  # the client checks structured content against the output schema
            return await client.call_tool(tool, arguments)

        await call("run_code", code="x = 41")
        again = await call("run_code", code="x + 1")
        result = again.structured_content["results"][0]
        assert again.content[0].text == "=> 42" and result["data"]["text/plain"] == "42", again

        shown = await call("run_code", code=PICTURE % base64.b64encode(png()))
        pictures = [c for c in shown.content if c.type == "image"]
        assert len(pictures) == 1 and base64.b64decode(pictures[0].data) == png(), shown

        failed = await call("run_code", code="1/0")
        assert not failed.is_error and failed.structured_content["exception"]["name"] == "ZeroDivisionError", failed

        await call("write_file", path="data.txt", content="from outside\n")
        read = await call("run_command", command="cat data.txt; echo more >> data.txt")
        assert read.structured_content["stdout"] == "from outside\n", read
        assert (await call("read_file", path="data.txt")).structured_content["text"] == "from outside\nmore\n"
        assert "data.txt" in (await call("list_files")).content[0].text
        assert (await call("read_file", path="none")).is_error

        seen = []

        async def progress(_, __, message):
            seen.append(message)

        slow = "import time\nfor i in range(5):\n    print(i, flush=True)\n    time.sleep(0.3)"
        await client.call_tool("run_code", {"code": slow}, progress_callback=progress)
        assert any("0" in message for message in seen), seen

        await call("reset_sandbox")
        assert (await call("run_code", code="x")).structured_content["exception"]["name"] == "NameError"
        print("ok:", target.split("/")[-1], client.protocol_version if hasattr(client, "protocol_version") else "")


asyncio.run(main(*sys.argv[1:]))
