"""The lines of `policies` that a function runs."""

import sys
from pathlib import Path

import policies

POLICIES = str(Path(policies.__file__).parent)


def steps(function):
    """How many lines of `policies` run."""
    count = 0

    def trace(frame, event, argument):
        nonlocal count
        if not frame.f_code.co_filename.startswith(POLICIES):
            return None
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        function()
    finally:
        sys.settrace(before)
    return count
