"""The command line, `gpu-admission`.

Each command is a module with an attribute `command`, imported when it is used: the imports of `serve` take longer than
the review of a folder of manifests.
"""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress
from io import StringIO
from typing import TYPE_CHECKING, Any, NoReturn

import click

from webhook.cluster.garbage_collection import collect_rarely

if TYPE_CHECKING:
    from collections.abc import Mapping

    from click.shell_completion import CompletionItem

__all__ = ["COMMANDS", "LazyGroup", "main"]


_UNUSABLE = 2
"""The exit code if the output cannot be written, as of input that cannot be read."""
_UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS)
"""The errors of a disk that is full, limited, broken or read-only. Click ends a command silently if a pipe is closed."""
_FAILED = 3
"""The exit code of an internal error; the other codes are about the input."""
_MANY = 1_000_000
"""New objects after which a command collects garbage among them; nothing waits for it, and few are garbage."""
_TRACE = "GPU_ADMISSION_TRACE"
"""The variable of the environment with which an internal error is shown with the place where it happened."""


class LazyGroup(click.Group):
    """A group that imports a command when it is called; help and completion of the group need no import."""

    def __init__(self, *args: Any, summaries: Mapping[str, str], **kwargs: Any) -> None:
        """Prepare a group of the commands in `summaries`, each with what it does."""
        super().__init__(*args, **kwargs)
        self.summaries = summaries

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run a command; an internal error is reported in one sentence."""
        collect_rarely(_MANY)
        try:
            return super().main(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - errors that click does not handle are internal errors
            from policies.kubernetes.names import printable

            if isinstance(error, OSError) and error.errno in _UNWRITABLE:
                _end_without_output(error)
            if os.environ.get(_TRACE) == "1":
                import traceback

                traceback.print_exception(error)
            what = printable(f"{type(error).__name__}: {error}")
            hint = f"please report it with the command, its input and the output with {_TRACE}=1 in the environment"
            click.echo(f"Error: internal error in gpu-admission ({what}); {hint}", err=True)
            sys.exit(_FAILED)

    def invoke(self, ctx: click.Context) -> Any:
        """Call the command, which prints colours as the environment wants; terminals get errors wrapped."""
        ctx.color = _has_colours(os.environ)
        try:
            return super().invoke(ctx)
        except click.ClickException as error:
            if sys.stderr is None or not sys.stderr.isatty():
                raise
            from webhook.pages.text_report import print_lines

            shown = StringIO()
            error.show(shown)
            print_lines(shown.getvalue().removesuffix("\n").split("\n"), err=True)
            sys.exit(error.exit_code)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the arguments name; the error on an unknown one names the nearest that exists."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from policies.kubernetes.names import closest

            guess = None if args[0].startswith("-") else closest(args[0], self.summaries)
            if guess is None:
                raise
            raise click.UsageError(f"No such command '{args[0]}'. Did you mean '{guess}'?", ctx) from error

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


def _end_without_output(error: OSError) -> NoReturn:
    """Exit with the reason why standard output, or a file, cannot be written.

    What is left in a buffer goes nowhere, because Python would try to write it once more at the end.
    """
    from policies.kubernetes.names import printable

    what = error.filename or "the output"
    with suppress(OSError):
        click.echo(printable(f"Error: cannot write {what}: {(error.strerror or str(error)).lower()}"), err=True)
    null = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(null, stream.fileno())
    sys.exit(_UNUSABLE)


def find_command(name: str) -> click.Command | None:
    """The command of a name, imported now; None if the name is unknown."""
    match name:
        case "review":
            from webhook.cli.commands.review import command
        case "test":
            from webhook.cli.commands.test import command
        case "migrate":
            from webhook.cli.commands.migrations import migrate_command as command
        case "explain":
            from webhook.cli.commands.explain import explain_command as command
        case "cel":
            from webhook.cli.commands.explain import cel_command as command
        case "plan":
            from webhook.cli.commands.explain import plan_command as command
        case "cutover":
            from webhook.cli.commands.migrations import cutover_command as command
        case "audit":
            from webhook.cli.commands.reports import audit_command as command
        case "quota":
            from webhook.cli.commands.quota import command
        case "usage":
            from webhook.cli.commands.reports import usage_command as command
        case "report":
            from webhook.cli.commands.reports import report_command as command
        case "snapshot":
            from webhook.cli.commands.reports import snapshot_command as command
        case "generate":
            from webhook.cli.commands.generate import command
        case "rules":
            from webhook.cli.commands.rules import command
        case "serve":
            from webhook.cli.commands.serve import serve_command as command
        case "preflight":
            from webhook.cli.commands.installation import preflight_command as command
        case "doctor":
            from webhook.cli.commands.installation import doctor_command as command
        case "apply-webhooks":
            from webhook.cli.commands.installation import apply_command as command
        case "delete-webhooks":
            from webhook.cli.commands.installation import delete_command as command
        case "sandbox":
            from webhook.cli.commands.serve import sandbox_command as command
        case "demo":
            from webhook.cli.commands.demo import command
        case "completion":
            from webhook.cli.completion import command
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


COMMANDS = {
    "review": "Review manifests as the webhook would, before they are applied.",
    "test": "Test that gpu-admission decides as your suites expect.",
    "migrate": "Rewrite manifests from the device plugin to claims, and back.",
    "explain": "Show where a pod or claim fits, and why not elsewhere.",
    "cel": "Show which devices a selector matches, and why.",
    "plan": "Show what a change of GPU configuration would break, before it is applied.",
    "cutover": "Plan the way from a ClusterPolicy to a GPUCluster, and back.",
    "audit": "Review all objects of a cluster; show which namespaces are ready to convert.",
    "quota": "Show the GPU limits of namespaces, what is used, and which pods use it.",
    "usage": "Show who holds which GPUs, and which are free.",
    "report": "Write a page that shows GPUs, holders, quotas and findings.",
    "snapshot": "Write a running cluster into files for --cluster, without secrets.",
    "generate": "Print a configuration, quota, claim or wish from a few options.",
    "rules": "List the rules, or explain one.",
    "serve": "Serve the webhook over HTTPS.",
    "preflight": "Show what an install or upgrade would do, before it is applied.",
    "doctor": "Show whether an installation works, and what to do if not.",
    "apply-webhooks": "Apply the webhooks of a version, without a call that fails.",
    "delete-webhooks": "Delete the webhooks, before gpu-admission is removed.",
    "sandbox": "Serve a Kubernetes API of manifests, for tests and for trying out.",
    "demo": "Show conversion from end to end, on a cluster in memory.",
    "completion": "Print the script that completes commands in bash, zsh or fish.",
}
"""The names of the commands, and what each does."""


@click.group(cls=LazyGroup, summaries=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="gpu-admission", message="%(prog)s %(version)s")
def main() -> None:
    """Admission control for the NVIDIA GPUs of a Kubernetes cluster.

    \b
    What would the cluster do with this manifest?
      gpu-admission review --live pod.yaml
    Why is this pod Pending?
      gpu-admission explain pod/train -n team-a
    Who holds which GPUs, and which are free?
      gpu-admission usage
    What does a rule require, and why?
      gpu-admission rules GA307
    """  # noqa: D301 - \b is click's mark for lines that are not to be wrapped
