"""The plugin of kubectl, `kubectl gpu`: the commands of every day, with the options that kubectl has.

kubectl runs the executable `kubectl-gpu` for `kubectl gpu`, and `kubectl_complete-gpu` to complete its arguments: each line
is a value, a tab and a description; the last one is a colon and what the shell does with them.

Source: k8s.io/kubectl pkg/cmd/plugin/plugin_completion.go; github.com/spf13/cobra completions.go, ShellCompDirective.
"""

from __future__ import annotations

import sys
from copy import copy
from typing import Any

import click
from click.core import ParameterSource

from webhook.cli import COMMANDS, LazyGroup
from webhook.cli.options import connection_options, namespace_option

_PROGRAM = "kubectl gpu"
_NAMES = {
    "why": "explain",
    "quota": "quota",
    "usage": "usage",
    "review": "review",
    "audit": "audit",
    "report": "report",
    "cel": "cel",
    "doctor": "doctor",
}
"""The commands of the plugin, and what gpu-admission calls them."""
_OF_THE_CLUSTER = ("usage", "audit", "report")
"""Commands that read all namespaces if none is given, as `kubectl top nodes` reads all nodes."""
_OF_ALL_NAMESPACES = ("quota", *_OF_THE_CLUSTER)
"""Commands that can read all namespaces."""
_WITH_LIVE = ("why", "review")
"""Commands that read the cluster for files only with `--live`, which the plugin adds."""
_ALL = f"{__name__}.all"
_DIRECTIVES = {"file": 0, "dir": 16, "plain": 4}
"""Complete names of files, complete names of folders, do neither."""


class _Plugin(LazyGroup):
    """The group of `kubectl gpu`."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        command = super().get_command(ctx, _NAMES.get(cmd_name, ""))
        return None if command is None else _as_plugin(command, cmd_name)


def _as_plugin(command: click.Command, name: str) -> click.Command:
    """A command of gpu-admission under its name here, also in the examples of its help."""
    renamed = copy(command)
    for own, theirs in _NAMES.items():
        renamed.help = (renamed.help or "").replace(f"gpu-admission {theirs} ", f"{_PROGRAM} {own} ")
        renamed.help = renamed.help.replace(f"gpu-admission {theirs}\n", f"{_PROGRAM} {own}\n")
    if name in _OF_ALL_NAMESPACES:
        renamed.params = [*command.params, _all_namespaces()]
    return renamed


def _all_namespaces() -> click.Option:
    def keep(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
        ctx.meta[_ALL] = value

    text = "Read all namespaces."
    return click.Option(
        ["-A", "--all-namespaces"], is_flag=True, is_eager=True, expose_value=False, callback=keep, help=text
    )


@click.group(
    cls=_Plugin,
    summaries={own: COMMANDS[theirs] for own, theirs in _NAMES.items() if theirs in COMMANDS},
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name="gpu-admission", message="gpu-admission %(version)s")
@connection_options
@namespace_option("The namespace; default: that of the context, and all of them for usage, audit and report.")
@click.pass_context
def plugin(ctx: click.Context, *, kubeconfig: str | None, context: str | None, namespace: str) -> None:
    """GPUs of a Kubernetes cluster: why a pod is Pending, quotas, usage, selectors, and reviews.

    \b
    Why is this pod Pending?
      kubectl gpu why pod/train
    What may the namespace use, and which pods use it?
      kubectl gpu quota -n team-a
    What would the cluster do with this manifest?
      kubectl gpu review pod.yaml

    The options of kubectl may stand before or after the command. With --cluster, a command reads files instead of the
    cluster of the context.
    """  # noqa: D301 - \b is click's mark for lines that are not to be wrapped
    given = {"kubeconfig": kubeconfig, "context": context, "namespace": namespace}

    def default_namespace() -> str:
        command = click.get_current_context()
        if command.meta.get(_ALL):
            return ""
        if namespace or _written_value(command, "cluster"):
            return namespace
        from webhook.cluster.credentials import context_namespace

        return context_namespace(
            _written_value(command, "kubeconfig") or kubeconfig, _written_value(command, "context") or context
        )

    def default_live() -> bool:
        return not _written_value(click.get_current_context(), "cluster")

    ctx.default_map = {
        name: {
            **{option: value for option, value in given.items() if value},
            **({} if name in _OF_THE_CLUSTER else {"namespace": default_namespace}),
            **({"live": default_live} if name in _WITH_LIVE else {}),
        }
        for name in _NAMES
    }


def _written_value(command: click.Context, option: str) -> Any:
    """The value of an option on the command line; None without it, also while others are still being read."""
    is_written = command.get_parameter_source(option) is ParameterSource.COMMANDLINE
    return command.params.get(option) if is_written else None


def main() -> None:
    """Run `kubectl gpu`."""
    plugin(prog_name=_PROGRAM)


def complete() -> None:
    """Print what completes the last argument, for kubectl."""
    from click.shell_completion import ShellComplete

    *before, incomplete = sys.argv[1:] or [""]
    items = ShellComplete(plugin, {}, _PROGRAM, "").get_completions(before, incomplete)
    for item in items:
        if item.type == "plain":
            click.echo(f"{item.value}\t{item.help}" if item.help else item.value)
    click.echo(f":{_DIRECTIVES[items[-1].type if items else 'plain']}")
