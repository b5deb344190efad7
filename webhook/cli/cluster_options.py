"""The options that say which cluster a command reads, as one value."""

from __future__ import annotations

from typing import NamedTuple

import click


class ClusterOptions(NamedTuple):
    """The options that say which cluster a command reads, and with which settings."""

    cluster: tuple[str, ...] = ()
    """Files and folders with its objects; empty for a running cluster."""
    kubeconfig: str | None = None
    """A file; None for the one that kubectl uses, else the ServiceAccount of this pod."""
    context: str | None = None
    """The context of the kubeconfig; its current one if None."""
    namespace: str = ""
    """The only namespace to look into, or that of objects without one; empty for all, or for `default`."""
    settings: str | None = None
    """The file with the administrator's settings; None for those of the cluster."""
    live: bool = False
    """True if a running cluster is read, even if none is named."""

    @property
    def is_running(self) -> bool:
        """True if an option selects a running cluster."""
        return self.live or bool(self.kubeconfig or self.context)

    def check(self) -> None:
        """Refuse options that exclude each other, and invalid namespaces.

        Raises:
            click.UsageError: An option is wrong.
        """
        from policies.kubernetes.names import is_dns_label, shown

        if self.cluster and self.live:
            raise click.UsageError("--cluster is for files, and --live is for a running cluster; give one of them")
        if self.cluster and self.is_running:
            raise click.UsageError("--cluster is for files, and --kubeconfig and --context are for a running cluster")
        if self.namespace and not is_dns_label(self.namespace):
            raise click.UsageError(f"invalid namespace name {shown(self.namespace)}")

    def with_namespace(self) -> ClusterOptions:
        """The options with the namespace of the context, if they select a running cluster and name none."""
        if self.namespace or not self.is_running:
            return self
        from webhook.cluster.credentials import context_namespace

        return self._replace(namespace=context_namespace(self.kubeconfig, self.context))
