"""Services of scenarios, forked from a process that has imported the commands: a start takes a tenth of the time."""

from __future__ import annotations

import os
from contextlib import contextmanager

import pytest

from testbed.commands import RunningCommand
from testbed.service import Service, environment


@contextmanager
def forked_services():
    """Fork services, in place of starting them, in the meantime."""
    with pytest.MonkeyPatch.context() as patch, open(os.devnull, "rb") as nothing:  # noqa: PTH123 - it is no path of ours

        def launch(_service, arguments, folder, output):
            files = [nothing.fileno(), output.fileno(), output.fileno()]
            return RunningCommand(arguments, folder, environment(), files)

        patch.setattr(Service, "launch", launch)
        yield
