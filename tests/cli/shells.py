"""Shells on a terminal, to try what they complete."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

PATIENCE = 60.0
"""Seconds for a shell to answer; a machine that is busy with other tests needs many."""
EXECUTABLES = Path(sys.executable).parent
ON_TERMINAL = "import os, sys; os.login_tty(0); os.execvp(sys.argv[1], sys.argv[1:])"
PROMPT = "READY>"


class ShellOnTerminal:
    """An interactive shell on its own terminal."""

    def __init__(self, command, folder, *, setup):
        self._seen = ""
        self._terminal, follower = pty.openpty()
        path = f"{EXECUTABLES}{os.pathsep}{os.environ['PATH']}"
        self._process = subprocess.Popen(
            [sys.executable, "-c", ON_TERMINAL, *command],
            cwd=folder,
            env={"PATH": path, "HOME": str(folder), "TERM": "dumb", "LC_ALL": "C.UTF-8"},
            stdin=follower,
        )
        os.close(follower)
        self.write(f"{setup}; PS1={PROMPT[0]}'{PROMPT[1:]}'\n")
        self.read_until(PROMPT)

    def write(self, text):
        os.write(self._terminal, text.encode())

    def read_until(self, text):
        """What was written up to a text."""
        deadline = time.monotonic() + PATIENCE
        while text not in self._seen:
            ready, _, _ = select.select([self._terminal], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"{text!r} was not written: {self._seen!r}"
            self._seen += os.read(self._terminal, 65536).decode(errors="replace")
        before, _, self._seen = self._seen.partition(text)
        return before

    def close(self):
        self._process.kill()
        self._process.wait()
        os.close(self._terminal)
