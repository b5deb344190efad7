"""The command line, `gpu-admission`.

Each command is a module with an attribute `command`, imported when it is used: serving needs libraries that take longer
to import than reviewing a folder of manifests takes.
"""

from __future__ import annotations

import os
from importlib import import_module

import click

__all__ = ["main"]

_COMMANDS = {
    "review": "Review manifests as the webhook would, without a cluster.",
    "rules": "List the rules, or tell all about one.",
    "serve": "Serve the webhook over HTTPS.",
    "demo": "Show the main job from end to end, on a cluster made of files.",
}


class _LazyGroup(click.Group):
    """A group that imports a command when it is called, and knows its line in the help before."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = import_module(f"webhook.cli.{cmd_name}").command
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
    What would become of these manifests?
      gpu-admission review --cluster examples/cluster pod.yaml
    What does a rule want, and why?
      gpu-admission rules GA307
    """  # noqa: D301 - \b is click's mark for lines that are not to be wrapped
    if os.environ.get("NO_COLOR"):
        ctx.color = False
