"""The process that forks a command of gpu-admission for each request of `testbed.commands`.

It imports all commands once, and nothing that only its parent needs.
"""

from __future__ import annotations

import gc
import json
import os
import runpy
import socket
import sys
from contextlib import suppress
from importlib import import_module
from pkgutil import walk_packages


def _serve(requests: socket.socket) -> None:
    """Fork for each request, and return in the process that is to run its command.

    Raises:
        SystemExit: No more requests can come.
    """
    while True:
        start, files, _, _ = socket.recv_fds(requests, 4, 4)
        _reap()
        if not start:
            sys.exit()
        request = requests.recv(int.from_bytes(start), socket.MSG_WAITALL)
        if os.fork() == 0:
            requests.close()
            _become(request, files)
            return
        for file in files:
            os.close(file)


def _reap() -> None:
    """Forget processes that have ended; what they took counts as taken by this one."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _become(request: bytes, files: list[int]) -> None:
    """Make this process one that a shell would have started; its parent reports its id, and how it ends."""
    *standard, reply = files
    if child := os.fork():
        for file in standard:
            os.close(file)
        os.write(reply, child.to_bytes(8))
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
