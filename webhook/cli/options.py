"""Options that several commands share, and the checks of their values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import click

from policies.kubernetes.names import is_dns_label
from policies.kubernetes.printable import shown

if TYPE_CHECKING:
    from collections.abc import Callable

    from policies.view import ClusterView

__all__ = ["check_cluster_options", "check_namespace_exists", "cluster_options"]

F = TypeVar("F", bound="Callable[..., Any]")


def cluster_options(command: F) -> F:
    """Add the options of commands that read a running cluster or the files of one, and print text or JSON."""
    options = (
        click.option("--kubeconfig", metavar="FILE", help="How to reach the cluster; default: as kubectl finds it."),
        click.option("--context", metavar="NAME", help="The context of the kubeconfig; default: its current one."),
        click.option("-n", "--namespace", default="", metavar="NAME", help="Read only this namespace."),
        click.option("--settings", metavar="FILE", help="A GPUAdmissionPolicy; default: the one of the cluster."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def check_cluster_options(
    cluster: tuple[str, ...], kubeconfig: str | None, context: str | None, namespace: str
) -> None:
    """Refuse options that exclude each other, and invalid namespaces; an empty one stands for all.

    Raises:
        click.UsageError: An option is wrong.
    """
    if cluster and (kubeconfig or context):
        raise click.UsageError("--cluster is for files, and --kubeconfig and --context are for a running cluster")
    if namespace and not is_dns_label(namespace):
        raise click.UsageError(f"invalid namespace name {shown(namespace)}")


def check_namespace_exists(view: ClusterView, namespace: str) -> None:
    """Refuse a namespace that does not exist: an empty result for a misspelled one would look good.

    Raises:
        click.UsageError: The namespace does not exist.
    """
    if namespace and view.get("Namespace", namespace) is None:
        raise click.UsageError(f"namespace {namespace} does not exist")
