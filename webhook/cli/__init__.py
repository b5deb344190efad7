"""The command line, `gpu-admission`.

Each command is a module with an attribute `command`, imported when it is used: the imports of `serve` take longer than
the review of a folder of manifests.
"""

from __future__ import annotations

import os
import sys
import traceback
from typing import Any

import click

from webhook.cli.lazy_modules import lazy_module

__all__ = ["main"]

_FAILED = 3
"""The exit code of an internal error; the other codes are about the input."""
_TRACE = "GPU_ADMISSION_TRACE"

_COMMANDS = {
    "review": "Review manifests as the webhook would, before they are applied.",
    "explain": "Show where a pod or claim fits, and why not elsewhere.",
    "audit": "Review all objects of a cluster; show which namespaces are ready to convert.",
    "quota": "Show the GPU limits of namespaces, what is used, and which pods use it.",
    "snapshot": "Write a running cluster into files for --cluster, without secrets.",
    "rules": "List the rules, or explain one.",
    "serve": "Serve the webhook over HTTPS.",
    "sandbox": "Serve a Kubernetes API of manifests, for tests and for trying out.",
    "demo": "Show conversion from end to end, on a cluster in memory.",
}


class _LazyGroup(click.Group):
    """A group that imports a command when it is called; the help of the group needs no import."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run a command; an internal error is reported in one sentence."""
        try:
            return super().main(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - errors that click does not handle are internal errors
            _report_internal_error(error)
            sys.exit(_FAILED)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = lazy_module(f"command {cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="gpu-admission", message="%(prog)s %(version)s")
@click.pass_context
def main(ctx: click.Context) -> None:
    """Admission control for the NVIDIA GPUs of a Kubernetes cluster.

    \b
    What would the cluster do with these manifests?
      gpu-admission review --cluster examples/cluster pod.yaml
    Where would this pod fit, and why not elsewhere?
      gpu-admission explain --cluster examples/cluster pod.yaml
    What does a rule require, and why?
      gpu-admission rules GA307
    """  # noqa: D301 - \b is click's mark for lines that are not to be wrapped
    if os.environ.get("NO_COLOR"):
        ctx.color = False


def _report_internal_error(error: Exception) -> None:
    if os.environ.get(_TRACE) == "1":
        traceback.print_exception(error)
    what = lazy_module("printable text").printable(f"{type(error).__name__}: {error}")
    hint = f"please report it with the command, its input and the output with {_TRACE}=1 in the environment"
    click.echo(f"Error: internal error in gpu-admission ({what}); {hint}", err=True)
