"""Commands of gpu-admission as processes of their own, forked from one that has imported them all.

A short command spends nearly all its time on the start of Python and on imports. A forked one has its own files,
environment, working folder and exit code, as a started one; what differs are the imports, which
tests/cli/test_startup.py looks at.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from functools import cache
from tempfile import TemporaryFile
from threading import Lock
from typing import TYPE_CHECKING, Any

from testbed.json_schemas import check_output

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


_SENDING = Lock()


def run_command(
    *arguments: object,
    cwd: str | Path,
    environment: Mapping[str, str],
    stdin: str = "",
    stdout: int | None = None,
    stderr: int | None = None,
) -> subprocess.CompletedProcess[str]:
    """The ended process of `gpu-admission` with arguments, as `subprocess.run` returns it.

    JSON for programs must have its published schema, and a documented exit code, unless it goes elsewhere.

    Args:
        arguments: The command and its arguments.
        cwd: The folder it runs in.
        environment: All its environment variables.
        stdin: The text of its standard input.
        stdout: The file descriptor that its output goes to; None to return the output.
        stderr: The file descriptor that its messages go to; None to return the messages.
    """
    args = [str(argument) for argument in arguments]
    with TemporaryFile() as given, TemporaryFile() as out, TemporaryFile() as err:
        given.write(stdin.encode())
        given.seek(0)
        ends = [out.fileno() if stdout is None else stdout, err.fileno() if stderr is None else stderr]
        code = RunningCommand(args, cwd, environment, [given.fileno(), *ends]).wait()
        done = subprocess.CompletedProcess(args, code, _text(out), _text(err))
    if stdout is None:
        check_output(args, done.returncode, done.stdout)
    return done


class RunningCommand:
    """A process of `gpu-admission` that runs until it ends, with some methods of `Popen`."""

    def __init__(
        self, args: Sequence[str], cwd: str | Path, environment: Mapping[str, str], files: Sequence[int]
    ) -> None:
        """Start it.

        Args:
            args: The command and its arguments.
            cwd: The folder it runs in.
            environment: All its environment variables.
            files: The file descriptors of its standard input, output and error.
        """
        request = json.dumps([list(args), str(cwd), dict(environment)]).encode()
        self._reply, theirs = socket.socketpair()
        with theirs, _SENDING:
            socket.send_fds(_server(), [len(request).to_bytes(4) + request], [*files, theirs.fileno()])
        self.pid = int.from_bytes(self._reply.recv(8, socket.MSG_WAITALL))
        self._code: int | None = None

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, once it has ended.

        Raises:
            subprocess.TimeoutExpired: It did not end in these seconds.
        """
        if self._code is None:
            self._reply.settimeout(timeout)
            try:
                status = self._reply.recv(16)
            except (BlockingIOError, TimeoutError):
                raise subprocess.TimeoutExpired("gpu-admission", timeout or 0) from None
            self._reply.close()
            if not status:
                raise RuntimeError("the process that runs commands has ended")
            self._code = int(status)
        return self._code

    def poll(self) -> int | None:
        """The exit code; None while it runs."""
        with suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def send_signal(self, number: int) -> None:
        """Send a signal, if it runs."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it."""
        self.send_signal(signal.SIGKILL)


def _text(file: Any) -> str:
    file.seek(0)
    text: str = file.read().decode()
    return text


@cache
def _server() -> socket.socket:
    """The socket of the process that forks; it ends when the socket is closed."""
    mine, theirs = socket.socketpair()
    with theirs:
        command = [sys.executable, "-m", "testbed.command_server", str(theirs.fileno())]
        process = subprocess.Popen(command, pass_fds=[theirs.fileno()])
    atexit.register(process.wait)
    atexit.register(mine.close)  # the last to be registered is called first
    return mine
