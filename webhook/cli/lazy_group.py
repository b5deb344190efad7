"""Groups of commands that are imported when they are used."""

from __future__ import annotations

import os
import sys
import traceback
from typing import TYPE_CHECKING, Any

import click

from webhook.cli.lazy_modules import lazy_module

if TYPE_CHECKING:
    from collections.abc import Mapping

    from click.shell_completion import CompletionItem

__all__ = ["LazyGroup"]

_FAILED = 3
"""The exit code of an internal error; the other codes are about the input."""
_TRACE = "GPU_ADMISSION_TRACE"


class LazyGroup(click.Group):
    """A group that imports a command when it is called; help and completion of the group need no import."""

    def __init__(self, *args: Any, summaries: Mapping[str, str], **kwargs: Any) -> None:
        """Prepare a group of the commands in `summaries`, each with what it does."""
        super().__init__(*args, **kwargs)
        self.summaries = summaries

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run a command; an internal error is reported in one sentence."""
        try:
            return super().main(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - errors that click does not handle are internal errors
            _report_internal_error(error)
            sys.exit(_FAILED)

    def invoke(self, ctx: click.Context) -> Any:
        """Call the command, which prints colours as the environment wants."""
        ctx.color = _has_colours(os.environ)
        return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of the commands."""
        return list(self.summaries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command with a name, imported now; None if there is none."""
        if cmd_name not in self.summaries:
            return None
        command: click.Command = lazy_module(f"command {cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands into the help."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self.summaries.items()))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        """The commands and options that begin with what is written."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415 - only needed while a shell completes

        commands = [
            CompletionItem(name, help=text) for name, text in self.summaries.items() if name.startswith(incomplete)
        ]
        return [*commands, *click.Command.shell_complete(self, ctx, incomplete)]


def _has_colours(environment: Mapping[str, str]) -> bool | None:
    """True or False if the environment says so; None to colour what is printed to terminals.

    The order is that of Python's own tracebacks. Source: https://no-color.org, https://force-color.org.
    """
    if environment.get("NO_COLOR"):
        return False
    if environment.get("FORCE_COLOR"):
        return True
    return False if environment.get("TERM") == "dumb" else None


def _report_internal_error(error: Exception) -> None:
    if os.environ.get(_TRACE) == "1":
        traceback.print_exception(error)
    what = lazy_module("printable text").printable(f"{type(error).__name__}: {error}")
    hint = f"please report it with the command, its input and the output with {_TRACE}=1 in the environment"
    click.echo(f"Error: internal error in gpu-admission ({what}); {hint}", err=True)
