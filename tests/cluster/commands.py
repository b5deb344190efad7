"""Commands of gpu-admission that tests of a cluster run."""

import os
from pathlib import Path

from testbed.commands import run_command


def command_output(*arguments, codes=(0, 1), stdin=""):
    """The standard output of a command, which must end with one of these exit codes."""
    done = run_command(*arguments, cwd=Path.cwd(), environment=os.environ, stdin=stdin)
    assert done.returncode in codes, done.stderr
    return done.stdout
