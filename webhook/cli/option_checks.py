"""The check of the options that say which cluster a command reads."""

from __future__ import annotations

import click

from policies.kubernetes.names import is_dns_label, shown

__all__ = ["check_cluster_options"]


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
    if namespace and not is_dns_label(namespace):
        raise click.UsageError(f"invalid namespace name {shown(namespace)}")
