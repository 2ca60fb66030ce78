"""E2B's published Python SDK, unmodified, against a Fumehood server that E2B_API_URL and E2B_SANDBOX_URL name."""

import json
import os
import urllib.error
import urllib.request
from datetime import datetime, timedelta, timezone
from threading import Thread

from e2b.sandbox.commands.command_handle import PtySize
from e2b_code_interpreter import (
    CommandExitException,
    FileNotFoundException,
    FilesystemEventType,
    InvalidArgumentException,
    NotFoundException,
    Sandbox,
    SandboxException,
    SandboxQuery,
    SandboxState,
    TimeoutException,
)


def raises(kind, call, *arguments, **options):
    try:
        call(*arguments, **options)
    except kind as e:
        return e
    raise AssertionError(f"no {kind.__name__}")


def code(s):
    run = s.run_code("x = 41; print('hé', end='')")
    assert run.logs.stdout == ["hé"] and run.error is None, run
    assert s.run_code("x + 1").text == "42"
    error = s.run_code("1/0").error
    assert error.name == "ZeroDivisionError" and "Traceback" in error.traceback, error
    assert s.run_code("[1, 2].map((x) => x + 1).join()", language="js").text == "2,3"
    local = "def f():\n    class Local(BaseException): pass\n    raise Local('v')\nf()"
    assert s.run_code(local).error.name == "Local"
    long = s.run_code("raise ValueError('x' * 100_000)").error
    assert long.value == "x" * 100_000, len(long.value)
    assert s.run_code("1").execution_count == 6
    assert {"python", "javascript"} <= {c.id for c in s.list_code_contexts()}
    context = s.create_code_context()
    s.run_code("y = 5", context=context)
    assert s.run_code("y", context=context).text == "5"
    assert context.id in [c.id for c in s.list_code_contexts()]
    s.restart_code_context(context)
    assert s.run_code("y", context=context).error.name == "NameError"
    s.remove_code_context(context)
    raises(NotFoundException, s.run_code, "y", context=context)
    seen = []
    s.run_code("for i in range(3): print(i, flush=True)", on_stdout=lambda message: seen.append(message.line))
    assert "".join(seen) == "0\n1\n2\n", seen


def commands(s):
    done = s.commands.run("echo $K; pwd; echo err >&2", envs={"L": "l"})
    assert done.stdout == "V\n/home/user\n" and done.stderr == "err\n", done
    assert raises(CommandExitException, s.commands.run, "exit 3").exit_code == 3
    background, seen = s.commands.run("for i in 1 2 3; do echo $i; sleep 0.1; done", background=True), []
    assert background.wait(on_stdout=seen.append).exit_code == 0 and "".join(seen) == "1\n2\n3\n", seen
    cat = s.commands.run("cat", background=True, stdin=True)
    s.commands.send_stdin(cat.pid, "hello\n")
    assert cat.pid in [p.pid for p in s.commands.list()]
    assert s.commands.connect(cat.pid).pid == cat.pid
    assert s.commands.run(f"cat /proc/{cat.pid}/comm").stdout == "cat\n"  # it is the number in the sandbox
    assert cat.kill() and not s.commands.kill(cat.pid)
    raises(CommandExitException, s.commands.run, f"kill -0 {cat.pid}")
    raises(SandboxException, s.commands.run, "true", cwd="/none")
    assert s.commands.run("python -c 'print(1)'").stdout == "1\n"


def terminals(s):
    terminal, seen = s.pty.create(PtySize(rows=24, cols=80), envs={"A": "b"}, cwd="/"), []
    s.pty.resize(terminal.pid, PtySize(rows=30, cols=100))
    raises(InvalidArgumentException, s.pty.resize, terminal.pid, PtySize(rows=0, cols=1))
    raises(SandboxException, s.commands.send_stdin, terminal.pid, "exit 1\n")
    s.pty.send_stdin(terminal.pid, b"tty; stty size; pwd; echo $A; exit 4\n")
    assert raises(CommandExitException, terminal.wait, on_pty=seen.append).exit_code == 4
    lines = b"".join(seen).splitlines()
    assert {b"/dev/pts/0", b"30 100", b"/", b"b"} <= set(lines), lines
    assert not s.pty.kill(terminal.pid)


def watches(s):
    s.files.make_dir("watched/below")
    handle = s.files.watch_dir("watched", recursive=True, include_entry=True)
    s.files.write("watched/below/a", "a")
    events = handle.get_new_events()
    kinds = [FilesystemEventType.CREATE, FilesystemEventType.CHMOD, FilesystemEventType.WRITE]
    assert [(e.type, e.name) for e in events] == [(k, "below/a") for k in kinds], events
    assert events[2].entry.path == "/home/user/watched/below/a" and events[2].entry.size == 1, events
    s.commands.run("for i in $(seq 5000); do : > watched/$i; done")
    assert "changes were lost" in str(raises(SandboxException, handle.get_new_events))
    assert handle.get_new_events() == []
    handle.stop()
    raises(SandboxException, handle.get_new_events)
    raises(FileNotFoundException, s.files.watch_dir, "none")
    for _ in range(6):
        last = s.files.watch_dir("watched")
    raises(SandboxException, s.files.watch_dir, "watched")
    last.stop()
    s.files.watch_dir("watched")


def files(s):
    assert s.files.write("a/b.txt", "héllo").path == "/home/user/a/b.txt"
    assert s.files.read("a/b.txt") == "héllo" and s.files.read("a/b.txt", format="bytes") == "héllo".encode()
    assert [(e.name, e.size) for e in s.files.list("a")] == [("b.txt", 6)]
    assert s.files.make_dir("d") and not s.files.make_dir("d") and not s.files.exists("none")
    assert s.files.rename("a/b.txt", "new/c.txt").path == "/home/user/new/c.txt"
    s.files.remove("new")
    assert not s.files.exists("new")
    raises(FileNotFoundException, s.files.read, "none")
    assert s.files.write("noted", "x", metadata={"By": "me"}).metadata == {"by": "me"}
    assert s.files.rename("noted", "moved").metadata == s.files.get_info("moved").metadata == {"by": "me"}
    assert s.files.write("moved", "x").metadata is None
    s.commands.run("echo 'echo ran' > script; chmod 755 script; ln -s script link")
    s.files.write("link", "#!/bin/sh\necho in place")
    assert s.commands.run("./script").stdout == "in place\n"  # its mode stays, and the link leads to it
    s.files.write_files([{"path": "one", "data": "1"}, {"path": "two", "data": b"2"}])
    assert s.commands.run("cat one two").stdout == "12"


def strangers(s):
    """No request for a sandbox is taken for one of another API, and no token opens another sandbox."""
    url, other = os.environ["E2B_SANDBOX_URL"], Sandbox.create()
    token = other._envd_access_token
    for port, headers, status in (
        ("49999", {}, 401),
        ("49999", {"X-Access-Token": token}, 401),
        ("49983", {"X-Access-Token": token[:-1]}, 401),
        ("8000", {"X-Access-Token": token}, 401),
        ("8000", {"X-Access-Token": s._envd_access_token}, 502),
        ("none", {"X-Access-Token": s._envd_access_token}, 400),
    ):
        headers |= {"E2b-Sandbox-Id": s.sandbox_id, "E2b-Sandbox-Port": port, "Content-Type": "application/json"}
        path = "/files?path=a" if port == "49983" else "/execute"
        request = urllib.request.Request(url + path, b'{"code": "1"}', headers)
        assert raises(urllib.error.HTTPError, urllib.request.urlopen, request).code == status, (port, headers)
    other.kill()


def signed(s):
    """A signature names its sandbox, so its URL needs no header."""
    s.files.write("signed.txt", "secret")
    with urllib.request.urlopen(s.download_url("signed.txt", use_signature_expiration=60)) as answer:
        assert answer.read() == b"secret"
    url = s.download_url("signed.txt", use_signature_expiration=-1)
    assert raises(urllib.error.HTTPError, urllib.request.urlopen, url).code == 401


def once():
    """A request that the SDK repeats makes one sandbox."""
    def create(body):
        headers = {"X-API-Key": os.environ["E2B_API_KEY"], "Idempotency-Key": "k", "Content-Type": "application/json"}
        request = urllib.request.Request(os.environ["E2B_API_URL"] + "/v2/sandboxes", body, headers)
        return json.load(urllib.request.urlopen(request))["sandboxID"]

    first = create(b'{"timeout": 60}')
    assert create(b'{"timeout": 60}') == first
    error = json.load(raises(urllib.error.HTTPError, create, b'{"timeout": 61}'))
    assert error["error_code"] == "idempotency_request_mismatch", error
    assert Sandbox.kill(first) and create(b'{"timeout": 60}') != first


def life(s):
    info = s.get_info()
    assert info.metadata == {"a": "b c"} and info.sandbox_id == s.sandbox_id, info
    before = info.end_at
    s.set_timeout(900)
    assert s.get_info().end_at > before
    found = Sandbox.list(query=None).next_items()
    assert s.sandbox_id in [i.sandbox_id for i in found]
    assert Sandbox.connect(s.sandbox_id).run_code("x").text == "41"
    for query, matches in (
        (SandboxQuery(template="code-interpreter-v1", started_after=info.started_at), True),
        (SandboxQuery(template="base"), False),
        (SandboxQuery(started_after=info.started_at + timedelta(seconds=1)), False),
        (SandboxQuery(state=[SandboxState.PAUSED]), False),
    ):
        assert (s.sandbox_id in [i.sandbox_id for i in Sandbox.list(query).next_items()]) == matches, query
    now = datetime.now(timezone.utc)
    assert s.get_metrics(start=info.started_at, end=now)[0].mem_total > 0
    assert s.get_metrics(end=now - timedelta(hours=1)) == []
    background = s.commands.run("sleep 60", background=True)
    coding = Thread(target=lambda: answers.append(raises(TimeoutException, s.run_code, "while True: pass")))
    answers = []
    coding.start()
    assert s.is_running() and s.kill() and not s.is_running() and not Sandbox.kill(s.sandbox_id)
    coding.join()
    answers.append(raises(TimeoutException, background.wait))
    assert len(answers) == 2 and all("sandbox was killed" in str(e) for e in answers), answers
    raises(Exception, s.run_code, "1")


if __name__ == "__main__":
    sandbox = Sandbox.create(timeout=300, metadata={"a": "b c"}, envs={"K": "V"})
    for part in (code, commands, terminals, watches, files, strangers, signed, life):
        part(sandbox)
        print("passed", part.__name__)
    once()
    print("passed once")
