"""The message of an internal error: one sentence, and where it happened if the environment says so."""

from __future__ import annotations

import os
import traceback

import click

from policies.kubernetes.names import printable

__all__ = ["report_internal_error"]

_TRACE = "GPU_ADMISSION_TRACE"


def report_internal_error(error: Exception) -> None:
    """Print what to report; with GPU_ADMISSION_TRACE=1 also where it happened."""
    if os.environ.get(_TRACE) == "1":
        traceback.print_exception(error)
    what = printable(f"{type(error).__name__}: {error}")
    hint = f"please report it with the command, its input and the output with {_TRACE}=1 in the environment"
    click.echo(f"Error: internal error in gpu-admission ({what}); {hint}", err=True)
