"""The sandbox client of the OpenAI Agents SDK."""

from __future__ import annotations

import asyncio
import io
import json
import urllib.request
from pathlib import Path

import pytest
from agents import ModelResponse, RunConfig, Runner, Usage, set_tracing_disabled
from agents.models.interface import Model
from agents.sandbox import Manifest, SandboxAgent, SandboxRunConfig
from agents.sandbox.entries import File
from agents.sandbox.errors import ExecTimeoutError, InvalidManifestPathError, WorkspaceReadNotFoundError
from agents.sandbox.snapshot import LocalSnapshotSpec
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from fumehood import Client
from fumehood._agent_processes import Process
from fumehood.openai_agents import FumehoodSandboxClient, FumehoodSandboxClientOptions

set_tracing_disabled(True)


class Script(Model):
    """A model that makes the calls of a script, and keeps what it reads."""

    def __init__(self, *calls: tuple[str, dict[str, object]]) -> None:
        self.calls = list(calls)
        self.read = []

    async def get_response(self, input, **_) -> ModelResponse:
        self.read = [item["output"] for item in input if isinstance(item, dict) and "output" in item]
        if self.calls:
            name, arguments = self.calls.pop(0)
            number = f"call{len(self.calls)}"
            item = ResponseFunctionToolCall(
                type="function_call", call_id=number, name=name, arguments=json.dumps(arguments)
            )
        else:
            text = ResponseOutputText(type="output_text", text="done", annotations=[])
            item = ResponseOutputMessage(type="message", id="1", role="assistant", status="completed", content=[text])
        return ModelResponse(output=[item], usage=Usage(), response_id=None)

    def stream_response(self, *_, **__):
        raise NotImplementedError


async def close(client: FumehoodSandboxClient, session) -> None:
    await session.aclose()
    await client.delete(session)
    await client.close()


@pytest.mark.smoke
def test_an_agent(server):
    model = Script(("exec_command", {"cmd": "echo $(( $(cat task.txt) + 1 )); exit 3"}))
    agent = SandboxAgent(
        name="worker", model=model, default_manifest=Manifest(entries={"task.txt": File(content=b"41")})
    )
    client = FumehoodSandboxClient(server.address)
    config = RunConfig(sandbox=SandboxRunConfig(client=client))
    result = asyncio.run(Runner.run(agent, "do it", run_config=config))
    assert result.final_output == "done"
    assert "42" in str(model.read)
    assert "code 3" in str(model.read)
    with Client(server.address) as left:
        assert not left.sandboxes()


def test_commands_and_files(server):
    async def check() -> None:
        client = FumehoodSandboxClient(server.address)
        options = FumehoodSandboxClientOptions(options={"env": {"A": "1"}})
        session = await client.create(manifest=Manifest(environment={"value": {"B": "2"}}), options=options)
        await session.start()
        assert await session.running()
        result = await session.exec("printf '\\377%s%s' $A $B; pwd >&2; exit 4")
        assert (result.stdout, result.stderr, result.exit_code) == (b"\xff12", b"/workspace\n", 4)
        assert (await session.exec("no-such-program", shell=False)).exit_code == 127
        with pytest.raises(ExecTimeoutError):
            await session.exec("sleep 60", timeout=0.3)
        await session.write(Path("a/b.bin"), io.BytesIO(b"\xff\x00"))
        assert (await session.read(Path("a/b.bin"))).read() == b"\xff\x00"
        assert [Path(entry.path).name for entry in await session.ls("a")] == ["b.bin"]
        with pytest.raises(WorkspaceReadNotFoundError):
            await session.read(Path("none"))
        await session.exec("ln -s /etc/passwd link")
        for path in "../../etc/passwd", "link":
            with pytest.raises(InvalidManifestPathError):
                await session.read(Path(path))
        await close(client, session)
        assert not await session.running()

    asyncio.run(check())


def test_a_workspace_that_outlives_its_sandbox(server, tmp_path):
    async def check() -> None:
        client = FumehoodSandboxClient(server.address)
        snapshot = LocalSnapshotSpec(base_path=tmp_path)
        manifest = Manifest(entries={"scratch": File(content=b"x", ephemeral=True)})
        session = await client.create(snapshot=snapshot, manifest=manifest)
        async with session:
            await session.exec("mkdir d; echo kept > d/a; chmod 755 d/a; ln -s a d/link; echo y > scratch")
            packed = (await session.persist_workspace()).read()
            assert b"scratch" not in packed
        saved = json.dumps(client.serialize_session_state(session.state))
        again = await client.resume(client.deserialize_session_state(json.loads(saved)))
        async with again:
            assert again.state.sandbox_id != json.loads(saved)["sandbox_id"]
            result = await again.exec("cat d/link scratch; stat -c %a d/a")
            assert result.stdout == b"kept\nx755\n"
        await client.close()

    asyncio.run(check())


def test_a_sandbox_that_is_kept(server):
    async def check() -> None:
        client = FumehoodSandboxClient(server.address)
        session = await client.create(options=FumehoodSandboxClientOptions(keep=True))
        async with session:
            await session.exec("echo kept > a")
        again = await client.resume(session.state)
        async with again:
            assert again.state.sandbox_id == session.state.sandbox_id
            assert (await again.exec("cat a")).stdout == b"kept\n"
        await client.delete(again)
        await client.close()

    asyncio.run(check())


def test_processes(server):
    async def check() -> None:
        client = FumehoodSandboxClient(server.address)
        session = await client.create()
        await session.start()
        shown = await session.pty_exec_start("tty >/dev/null && stty size; read x; echo got $x; exit 5", tty=True)
        assert b"24 80" in shown.output
        assert shown.process_id
        typed = await session.pty_write_stdin(session_id=shown.process_id, chars="hi\n", yield_time_s=20)
        assert b"got hi" in typed.output
        assert (typed.process_id, typed.exit_code) == (None, 5)
        ended = await session.pty_exec_start("echo out; echo err >&2; exit 6")
        assert sorted(ended.output.split()) == [b"err", b"out"]
        assert ended.exit_code == 6
        left = await session.pty_exec_start("echo began; sleep 1000", yield_time_s=0.3)
        assert left.process_id
        await session.pty_terminate_all()
        assert (await session.exec("pgrep -x sleep")).exit_code == 1
        await close(client, session)

    asyncio.run(check())


def test_a_reader_that_fails():
    class Broken:
        async def events(self):
            raise ValueError("odd")
            yield

    async def check() -> None:
        process = Process(Broken(), takes_input=False)
        _, _, last = await process.collect(5000, None)
        assert last
        assert process.exit_code == -1
        with pytest.raises(ValueError, match="odd"):
            await process.end()

    asyncio.run(check())


def test_ports(server):
    async def check() -> None:
        client = FumehoodSandboxClient(server.address)
        session = await client.create(options=FumehoodSandboxClientOptions(exposed_ports=(8000,)))
        await session.start()
        await session.exec("echo served > page")
        await session.pty_exec_start("python3 -m http.server --bind 127.0.0.1 8000", yield_time_s=0.3)
        endpoint = await session.resolve_exposed_port(8000)
        url = endpoint.url_for("http") + "page"

        def fetch() -> bytes:
            with urllib.request.urlopen(url, timeout=20) as answer:
                return answer.read()

        for _ in range(100):
            try:
                assert await asyncio.to_thread(fetch) == b"served\n"
                break
            except OSError:
                await asyncio.sleep(0.1)
        else:
            pytest.fail("the port does not answer")
        await close(client, session)
        with pytest.raises(OSError, match="refused"):
            await asyncio.to_thread(fetch)

    asyncio.run(check())
