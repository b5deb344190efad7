"""Commands of gpu-admission that tests of a cluster run."""

import os
from pathlib import Path

from testbed.commands import run_command


def printed(*arguments, codes=(0, 1), stdin=""):
    """What a command prints, which ends with one of the codes."""
    done = run_command(*arguments, cwd=Path.cwd(), environment=os.environ, stdin=stdin)
    assert done.returncode in codes, done.stderr
    return done.stdout
