"""Measures E2B's Python SDK: python e2bsdk.py SERVER RUNS. Prints JSON of milliseconds by row."""

import json
import os
import sys
import time
from threading import Event, Thread

from e2b.sandbox.commands.command_handle import PtySize
from e2b_code_interpreter import Sandbox

WARMUPS = 20


def timed(function):
    began = time.perf_counter()
    function()
    return (time.perf_counter() - began) * 1e3


def main(server, runs):
    server = server.rstrip("/")
    os.environ |= {"E2B_API_URL": server, "E2B_SANDBOX_URL": server, "E2B_VALIDATE_API_KEY": "false"}
    os.environ.setdefault("E2B_API_KEY", "none")
    s, seen = Sandbox.create(), Event()
    rows = {"run": [timed(lambda: s.run_code("1")) for _ in range(WARMUPS + runs)][WARMUPS:], "create": [], "echo": []}
    terminal = s.pty.create(PtySize(24, 80))
    Thread(target=lambda: list(terminal_output(terminal, seen)), daemon=True).start()
    for _ in range(WARMUPS + runs):
        seen.clear()
        rows["echo"].append(timed(lambda: (s.pty.send_stdin(terminal.pid, b"x"), seen.wait(5))))
    rows["echo"] = rows["echo"][WARMUPS:]
    for _ in range(max(runs // 20, 5)):
        made = []
        rows["create"].append(timed(lambda: made.append(Sandbox.create())))
        made[0].kill()
    terminal.kill()
    s.kill()
    print(json.dumps(rows))


def terminal_output(terminal, seen):
    for event in terminal:
        seen.set()
        yield event


main(sys.argv[1], int(sys.argv[2]))
