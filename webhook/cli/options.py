"""Options that several commands share, and the checks of their values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import click

from webhook.cli.lazy_modules import lazy_module

if TYPE_CHECKING:
    from collections.abc import Callable

    from policies.view import ClusterView

__all__ = [
    "check_cluster_options",
    "check_namespace_exists",
    "cluster_options",
    "files_option",
    "live_options",
    "output_option",
    "settings_option",
]

F = TypeVar("F", bound="Callable[..., Any]")


def files_option(what: str) -> Callable[[F], F]:
    """The option `--cluster`: files or folders with `what` (sentences), the objects of a cluster."""
    text = f"Files or folders with {what} Can be repeated."
    return click.option("--cluster", multiple=True, metavar="PATH", help=text)


def settings_option(default: str) -> Callable[[F], F]:
    """The option `--settings`, with the settings that hold without it."""
    return click.option("--settings", metavar="FILE", help=f"A GPUAdmissionPolicy; default: {default}.")


def output_option(text: str, json: str) -> Callable[[F], F]:
    """The option `--output`, with what each format shows."""
    formats = click.Choice(["text", "json"])
    shown = f"text: {text}. json: {json}, for programs."
    return click.option("-o", "--output", type=formats, default="text", show_default=True, help=shown)


def live_options(command: F) -> F:
    """Add the options of commands that read a running cluster only if one of them is given."""
    options = (
        click.option(
            "--live",
            is_flag=True,
            help="Take facts from the running cluster that kubectl talks to; only reads are sent.",
        ),
        click.option("--kubeconfig", metavar="FILE", help="The same for the cluster of a kubeconfig."),
        click.option("--context", metavar="NAME", help="The same for a context of the kubeconfig."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def cluster_options(command: F) -> F:
    """Add the options of commands that read a running cluster or the files of one, and print text or JSON."""
    options = (
        click.option("--kubeconfig", metavar="FILE", help="How to reach the cluster; default: as kubectl finds it."),
        click.option("--context", metavar="NAME", help="The context of the kubeconfig; default: its current one."),
        click.option("-n", "--namespace", default="", metavar="NAME", help="Read only this namespace."),
        settings_option("the one of the cluster"),
    )
    for option in reversed(options):
        command = option(command)
    return command


def check_cluster_options(
    cluster: tuple[str, ...], kubeconfig: str | None, context: str | None, namespace: str, *, live: bool = False
) -> None:
    """Refuse options that exclude each other, and invalid namespaces; an empty one stands for all.

    Raises:
        click.UsageError: An option is wrong.
    """
    if cluster and live:
        raise click.UsageError("--cluster is for files, and --live is for a running cluster; give one of them")
    if cluster and (kubeconfig or context):
        raise click.UsageError("--cluster is for files, and --kubeconfig and --context are for a running cluster")
    if namespace and not lazy_module("names of objects").is_dns_label(namespace):
        raise click.UsageError(f"invalid namespace name {lazy_module('printable text').shown(namespace)}")


def check_namespace_exists(view: ClusterView, namespace: str) -> None:
    """Refuse a namespace that does not exist: an empty result for a misspelled one would look good.

    Raises:
        click.UsageError: The namespace does not exist.
    """
    if namespace and view.get("Namespace", namespace) is None:
        raise click.UsageError(f"namespace {namespace} does not exist")
