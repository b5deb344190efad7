"""Commands of gpu-admission as processes of their own, forked from one that has imported them all.

A short command spends nearly all its time on the start of Python and on imports. A forked one has its own files,
environment, working folder and exit code, as a started one; what differs are the imports, which
tests/cli/test_startup.py looks at.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
from functools import cache
from importlib import import_module
from pkgutil import walk_packages
from tempfile import TemporaryFile
from threading import Lock
from typing import TYPE_CHECKING, Any

from testbed.json_schemas import check_output

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["run_command"]

_SENDING = Lock()


def run_command(
    *arguments: object, cwd: str | Path, environment: Mapping[str, str], stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    """The ended process of `gpu-admission` with arguments, as `subprocess.run` returns it.

    JSON for programs must have its published schema, and a documented exit code.

    Args:
        arguments: The command and its arguments.
        cwd: The folder it runs in.
        environment: All its environment variables.
        stdin: The text of its standard input.
    """
    args = [str(argument) for argument in arguments]
    request = json.dumps([args, str(cwd), dict(environment)]).encode()
    with TemporaryFile() as given, TemporaryFile() as out, TemporaryFile() as err:
        given.write(stdin.encode())
        given.seek(0)
        mine, theirs = socket.socketpair()
        with mine:
            with theirs, _SENDING:
                files = [given.fileno(), out.fileno(), err.fileno(), theirs.fileno()]
                socket.send_fds(_server(), [len(request).to_bytes(4) + request], files)
            status = mine.recv(16)
        if not status:
            raise RuntimeError("the process that runs commands has ended")
        done = subprocess.CompletedProcess(args, int(status), _text(out), _text(err))
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
        command = [sys.executable, "-m", __name__, str(theirs.fileno())]
        process = subprocess.Popen(command, pass_fds=[theirs.fileno()])
    atexit.register(process.wait)
    atexit.register(mine.close)  # the last to be registered is called first
    return mine


def _serve(requests: socket.socket) -> None:
    """Fork for each request, and return in the process that is to run its command.

    Raises:
        SystemExit: No more requests can come.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        start, files, _, _ = socket.recv_fds(requests, 4, 4)
        if not start:
            sys.exit()
        request = requests.recv(int.from_bytes(start), socket.MSG_WAITALL)
        if os.fork() == 0:
            requests.close()
            _become(request, files)
            return
        for file in files:
            os.close(file)


def _become(request: bytes, files: list[int]) -> None:
    """Make this process one that a shell would have started; its parent reports how it ends."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    *standard, reply = files
    if child := os.fork():
        _, status = os.waitpid(child, 0)
        os.write(reply, str(os.waitstatus_to_exitcode(status)).encode())
        os._exit(0)
    os.close(reply)
    for number, file in enumerate(standard):
        os.dup2(file, number)
        os.close(file)
    arguments, folder, environment = json.loads(request)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["gpu-admission", *arguments]


if __name__ == "__main__":
    import webhook.cli
    from policies.cel import compile_selector

    for module in walk_packages(webhook.cli.__path__, "webhook.cli."):
        import_module(module.name)
    compile_selector("true")  # the first call creates the parser of CEL, which takes a sixth of a second
    # Objects that the collector never looks at are not copied into each process.
    gc.collect()
    gc.freeze()
    _serve(socket.socket(fileno=int(sys.argv[1])))
    runpy.run_module("webhook", run_name="__main__", alter_sys=True)
