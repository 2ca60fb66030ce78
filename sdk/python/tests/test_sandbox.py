from __future__ import annotations

import asyncio
import os

import pytest

from fumehood import AlreadyExists, AsyncSandbox, Client, NotFound, Sandbox

PICTURE = """
class Picture:
    def _repr_png_(self): return b"\\x89PNG\\r\\n\\x1a\\n"
    def _repr_html_(self): return "<b>x</b>"
Picture()
"""


@pytest.mark.smoke
def test_variables_stay(sandbox):
    assert sandbox.run("x = 41").ok
    answer = sandbox.run("x + 1")
    assert (answer.text, answer.result.main, answer.stdout) == ("42", True, "")
    assert answer.usage.wall_ms > 0


@pytest.mark.smoke
def test_a_failed_program_does_not_raise(sandbox):
    answer = sandbox.run("print('before'); 1/0")
    assert (answer.ok, answer.status, answer.exception.name) == (False, "failed", "ZeroDivisionError")
    assert answer.stdout == "before\n"
    assert "1/0" in answer.exception.traceback
    answer = sandbox.exec("echo out; echo err >&2; exit 3")
    assert (answer.stdout, answer.stderr, answer.exit_code) == ("out\n", "err\n", 3)


@pytest.mark.smoke
def test_async(server):
    async def main() -> str | None:
        async with AsyncSandbox(server=server.address) as sandbox:
            await sandbox.run("x = 41")
            await sandbox.files.write("a", b"1")
            run = await sandbox.start("x + 1")
            names = [event.name async for event in run.events()]
            assert names == ["started", "result", "done"]
            return (await run.wait()).text

    assert asyncio.run(main()) == "42"


def test_rich_results(sandbox):
    answer = sandbox.run(PICTURE)
    assert (answer.png, answer.result.html) == (b"\x89PNG\r\n\x1a\n", "<b>x</b>")
    bundle = answer._repr_mimebundle_()
    assert bundle["image/png"] == "iVBORw0KGgo="
    assert bundle["text/html"] == "<b>x</b>"


def test_output_arrives_while_the_program_runs(sandbox):
    seen = []
    code = "import sys\nprint('é')\nprint('b', file=sys.stderr)\ndisplay(1)\n2"
    answer = sandbox.run(
        code,
        on_stdout=lambda text: seen.append(("out", text)),
        on_stderr=lambda text: seen.append(("err", text)),
        on_result=lambda result: seen.append(("result", result.text)),
    )
    for name, text in (("out", "é\n"), ("err", "b\n"), ("result", "12")):
        assert "".join(piece for kind, piece in seen if kind == name) == text
    assert [r.text for r in answer.results] == ["1", "2"]
    assert answer.text == "2"


def test_dropped_output(server):
    with Sandbox(server=server.address, limits={"output_kib": 4}) as sandbox:
        for command in ("yes é | head -n 10000; echo end", "yes é | head -n 1500; echo end"):
            pieces = []
            answer = sandbox.exec(command, on_stdout=pieces.append)
            assert answer.stdout == "".join(pieces)
            details = answer.output.stdout if answer.output else None
            assert answer.stdout.endswith("é\nend\n")
            assert ("dropped ..." in answer.stdout) == bool(details) == ("10000" in command)
            assert sandbox.find_run(answer.id).wait().stdout == answer.stdout
        answer = sandbox.run("print('é\\n' * 10000 + 'end')")
        assert answer.output.stdout.truncated
        assert answer.stdout.endswith("é\nend\n")


def test_binary_output(sandbox):
    answer = sandbox.exec("printf '\\377a'")
    assert answer.output.stdout.base64 == b"\xffa"
    assert answer.stdout == "\ufffda"


def test_inputs(sandbox):
    answer = sandbox.exec(
        ["sh", "-c", "cat; cat a.txt; echo $X"], stdin=b"in\n", files={"a.txt": "one\n", "b": b"\xff"}, env={"X": "y"}
    )
    assert answer.stdout == "in\none\ny\n"
    assert sandbox.run("open('b','rb').read()").text == "b'\\xff'"
    answer = sandbox.run("while True: pass", timeout_s=0.2)
    assert answer.status == "timeout"
    assert "timeout_s" in answer.hint
    answer = sandbox.run("open('out.txt','w').write('x')", return_files=["*.txt"])
    assert [(f.path, f.data) for f in answer.files] == [("out.txt", b"x")]


def test_contexts(sandbox):
    plots = sandbox.context("plots", language="javascript")
    plots.run("let y = 2")
    assert plots.run("y").text == "2"
    python = sandbox.context("other")
    python.run("é_name = 1")
    assert python.complete("é_na") == ["é_name"]
    python.restart()
    assert python.run("é_name").exception.name == "NameError"
    assert sandbox.context("other").run("1").text == "1"
    unnamed = sandbox.context(env={"X": "y"}, dir="/tmp")
    assert unnamed.run("import os; os.environ['X'], os.getcwd()").text == "('y', '/tmp')"
    assert {c.name for c in sandbox.contexts()} >= {"plots", "other", unnamed.name}
    plots.delete()
    assert "plots" not in {c.name for c in sandbox.contexts()}


def test_background_runs(sandbox):
    run = sandbox.start(command=["cat"], interactive=True)
    run.write("a")
    run.write(b"b", eof=True)
    answer = run.wait()
    assert (answer.stdout, run.info().status) == ("ab", "succeeded")
    assert sandbox.find_run(run.id).wait().stdout == "ab"
    assert run.id in [info.id for info in sandbox.runs()]
    endless = sandbox.start("x = 5\nprint(x)\nwhile True: pass")
    next(event for event in endless.events() if event.name == "stdout")  # the code runs
    endless.interrupt()
    assert endless.wait().exception.name == "KeyboardInterrupt"
    assert sandbox.run("x").text == "5"
    sleeper = sandbox.start(command="sleep 100")
    sleeper.cancel()
    assert sleeper.wait().status == "canceled"


def test_callers_that_give_up_cancel_the_run(sandbox):
    def stop(_: str) -> None:
        raise KeyError("stop")

    with pytest.raises(KeyError):
        sandbox.exec("echo a; sleep 100", on_stdout=stop)
    assert [info.status for info in sandbox.runs()] == ["canceled"]


def test_async_cancellation_cancels_the_run(server):
    async def main() -> list[str]:
        async with AsyncSandbox(server=server.address) as sandbox:
            begun = asyncio.Event()
            run = sandbox.exec("echo a; sleep 100", on_stdout=lambda _: begun.set())
            task = asyncio.create_task(run)
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            return [info.status for info in await sandbox.runs()]

    assert asyncio.run(main()) == ["canceled"]


def test_names_and_lifetimes(server):
    with Client(server.address) as client:
        with Sandbox("work", server=server.address, metadata={"user": "u1"}) as first:
            first.run("x = 1")
            assert (first.existing, first.differences) == (False, [])
        with Sandbox("work", server=server.address, limits={"memory_mib": 100}) as again:
            assert again.existing
            assert ["memory" in d.name for d in again.differences] == [True]
        with pytest.raises(AlreadyExists):
            Sandbox("work", server=server.address, if_exists="fail")
        found = client.get("work")
        assert found.run("x").text == "1"
        assert [s.name for s in client.sandboxes({"user": "u1"})] == ["work"]
        info = found.update(lifetime={"idle_s": 60}, metadata={"user": "u2"})
        assert (info.lifetime.idle_s, info.metadata) == (60, {"user": "u2"})
        assert found.stats().wall_ms > 0
        found.remove()
        with pytest.raises(NotFound):
            client.get("work")
        with Sandbox(server=server.address) as unnamed:
            name = unnamed.id
        with pytest.raises(NotFound):
            client.get(name)


def test_one_shot_runs(server):
    with Client(server.address) as client:
        assert client.run("print(6*7)").stdout == "42\n"
        assert client.run("console.log(1)", language="javascript").stdout == "1\n"
        seen = []
        answer = client.run(command="cat a; echo; echo x > b", files={"a": "A"}, return_files=["b"])
        assert (answer.stdout, answer.files[0].data) == ("A\n", b"x\n")
        assert client.run("print(1)", on_stdout=seen.append).stdout == "1\n"
        assert "".join(seen) == "1\n"
        assert "python" in client.capabilities().languages
        assert "python" in [language.name for language in client.languages()]
        with pytest.raises(NotFound, match="none:such"):
            client.languages(image="none:such")


@pytest.mark.skipif(os.getuid() != 0, reason="only root can bound a volume")
def test_volumes(server):
    with Client(server.address) as client:
        assert client.create_volume("data", 16).size_mib == 16
        with pytest.raises(AlreadyExists):
            client.create_volume("data", 16)
        volumes = [{"name": "data", "path": "/data"}]
        assert client.run(command="echo kept > /data/x", volumes=volumes).ok
        assert client.run(command="cat /data/x", volumes=volumes).stdout == "kept\n"
        assert [v.name for v in client.volumes()] == ["data"]
        client.remove_volume("data")
        assert client.volumes() == []
        with pytest.raises(NotFound):
            client.remove_volume("data")
