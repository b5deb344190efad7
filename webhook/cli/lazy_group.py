"""Groups of commands that are imported when they are used."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Mapping

    from click.shell_completion import CompletionItem

__all__ = ["LazyGroup"]

_FAILED = 3
"""The exit code of an internal error; the other codes are about the input."""


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
            from webhook.cli.internal_errors import report_internal_error

            report_internal_error(error)
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
        return find_command(cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands into the help."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self.summaries.items()))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        """The commands and options that begin with what is written."""
        from click.shell_completion import CompletionItem

        commands = [
            CompletionItem(name, help=text) for name, text in self.summaries.items() if name.startswith(incomplete)
        ]
        return [*commands, *click.Command.shell_complete(self, ctx, incomplete)]


def find_command(name: str) -> click.Command | None:
    """The command of a name, imported now; None if the name is unknown."""
    match name:
        case "review":
            from webhook.cli.commands.review import command
        case "test":
            from webhook.cli.commands.test import command
        case "migrate":
            from webhook.cli.commands.migrate import command
        case "explain":
            from webhook.cli.commands.explain import command
        case "cel":
            from webhook.cli.commands.cel import command
        case "plan":
            from webhook.cli.commands.plan import command
        case "audit":
            from webhook.cli.commands.audit import command
        case "quota":
            from webhook.cli.commands.quota import command
        case "usage":
            from webhook.cli.commands.usage import command
        case "report":
            from webhook.cli.commands.report import command
        case "snapshot":
            from webhook.cli.commands.snapshot import command
        case "generate":
            from webhook.cli.commands.generate import command
        case "rules":
            from webhook.cli.commands.rules import command
        case "serve":
            from webhook.cli.commands.serve import command
        case "preflight":
            from webhook.cli.commands.preflight import command
        case "doctor":
            from webhook.cli.commands.doctor import command
        case "apply-webhooks":
            from webhook.cli.commands.apply_webhooks import command
        case "delete-webhooks":
            from webhook.cli.commands.delete_webhooks import command
        case "sandbox":
            from webhook.cli.commands.sandbox import command
        case "demo":
            from webhook.cli.commands.demo import command
        case "completion":
            from webhook.cli.commands.completion import command
        case _:
            return None
    return command


def _has_colours(environment: Mapping[str, str]) -> bool | None:
    """True or False if the environment says so; None to colour what is printed to terminals.

    The order is that of Python's own tracebacks. Source: https://no-color.org, https://force-color.org.
    """
    if environment.get("NO_COLOR"):
        return False
    if environment.get("FORCE_COLOR"):
        return True
    return False if environment.get("TERM") == "dumb" else None
