"""Commands of gpu-admission as processes of their own, forked from one that has imported them all.

A short command spends nearly all its time on the start of Python and on imports. A forked one has its own files,
environment, working folder and exit code, as a started one; what differs are the imports, which
tests/cli/test_startup.py looks at.
"""

from __future__ import annotations

import atexit
import json
import socket
import subprocess
import sys
from functools import cache
from tempfile import TemporaryFile
from threading import Lock
from typing import TYPE_CHECKING, Any

from testbed.json_schemas import check_output

if TYPE_CHECKING:
    from collections.abc import Mapping
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
    request = json.dumps([args, str(cwd), dict(environment)]).encode()
    with TemporaryFile() as given, TemporaryFile() as out, TemporaryFile() as err:
        given.write(stdin.encode())
        given.seek(0)
        mine, theirs = socket.socketpair()
        with mine:
            with theirs, _SENDING:
                ends = [out.fileno() if stdout is None else stdout, err.fileno() if stderr is None else stderr]
                files = [given.fileno(), *ends, theirs.fileno()]
                socket.send_fds(_server(), [len(request).to_bytes(4) + request], files)
            status = mine.recv(16)
        if not status:
            raise RuntimeError("the process that runs commands has ended")
        done = subprocess.CompletedProcess(args, int(status), _text(out), _text(err))
    if stdout is None:
        check_output(args, done.returncode, done.stdout)
    return done


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
