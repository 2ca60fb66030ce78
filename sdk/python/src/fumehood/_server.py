"""The server that this program starts for itself, if it names none."""

from __future__ import annotations

import atexit
import os
import subprocess
import tempfile
import threading
from collections import deque
from shutil import rmtree

from fumehood import _program
from fumehood._errors import Unavailable, Unsupported
from fumehood._wire import UNIX

READY = "listening on "
START_SECONDS = 60  # from the start of the process until it listens
STOP_SECONDS = 30  # until all its sandboxes have ended
LONGEST_PATH = 80  # of a socket
KEPT_LINES = 50  # of the server's log, for messages


class PrivateServer:
    """`fumehood serve --private` on a socket that only this user can open.

    It ends when this process ends, however that happens: the kernel then closes its standard input.
    """

    def __init__(self) -> None:
        self.pid = os.getpid()
        parent = tempfile.gettempdir()
        self._folder = tempfile.mkdtemp(prefix="fumehood-", dir=parent if len(parent) < LONGEST_PATH - 30 else "/tmp")
        self.address = f"{UNIX}{self._folder}/s"
        self._log: deque[str] = deque(maxlen=KEPT_LINES)
        self._ready = threading.Event()  # it listens, or has ended
        self._listens = False
        try:
            self._process = subprocess.Popen(
                [_program.find(), "serve", "--private", "--listen", self.address],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                start_new_session=True,  # Ctrl-C is for this program
            )
        except OSError as e:
            rmtree(self._folder, ignore_errors=True)
            raise Unavailable(f"cannot start fumehood: {e}", "install it, or name it in FUMEHOOD_PROGRAM") from e
        threading.Thread(target=self._read_log, name="fumehood-log", daemon=True).start()

    def _read_log(self) -> None:
        assert self._process.stderr
        with self._process.stderr as lines:
            for line in lines:
                self._log.append(line.rstrip())
                if READY in line:
                    self._listens = True
                    self._ready.set()
        self._ready.set()

    def wait(self) -> None:
        """Wait until the server listens. It raises Unavailable if the server ends before."""
        self._ready.wait(START_SECONDS)
        if not self._listens:
            log = "\n".join(self._log)
            self.close()
            kind = Unsupported if "error:" in log else Unavailable
            raise kind(f"the server did not start:\n{log}", "run `fumehood doctor` to see what this host lacks")

    @property
    def alive(self) -> bool:
        """Whether the server runs."""
        return self._process.poll() is None

    def close(self) -> None:
        """End the server and its sandboxes, and wait for it."""
        if self.pid != os.getpid():  # a fork of the program does not own it
            return
        if self._process.stdin:
            self._process.stdin.close()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        rmtree(self._folder, ignore_errors=True)


_lock = threading.Lock()
_server: PrivateServer | None = None


def address() -> str:
    """Return the address of this program's server, and start it if it does not run."""
    global _server  # noqa: PLW0603 - one server for all sandboxes of the program
    with _lock:
        if _server is None or not _server.alive:
            if _server is not None:
                _server.close()
            _server = PrivateServer()
            atexit.register(_server.close)
        server = _server
    server.wait()
    return server.address
