"""Usage reports of clusters in files, and usage reports as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from policies.usage import READ_FROM, UsageJSON, UsageReport, usage_json, usage_report
from policies.view import UNKNOWN
from webhook.cli.options import check_namespace_exists
from webhook.cli.settings import read_cluster_files
from webhook.cli.text_layout import output_text
from webhook.cluster.manifests import ManifestsView

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["WITHOUT", "Usage", "as_json", "report_usage_of_files"]

WITHOUT = {
    "Node": "device plugins are seen only by the pods that hold their GPUs, and cordons and taints not at all",
    "Pod": "it is unknown how many GPUs of device plugins are held, and which nodes are full",
    "ResourceClaim": "it is unknown how many GPUs of the DRA driver are held",
    "ResourceSlice": "GPUs of the DRA driver are shown only if claims hold them, without their product",
}
"""The consequences for a report if a kind cannot be read."""


@dataclass(frozen=True, slots=True)
class Usage:
    """A usage report, and notes on kinds that cannot be read."""

    report: UsageReport
    notes: tuple[str, ...] = ()
    """Sentences without full stops."""

    @property
    def is_sound(self) -> bool:
        """True if every number is known, and the cluster does not contradict itself."""
        return self.report.is_complete and not self.report.problems


def report_usage_of_files(cluster: Sequence[str], namespace: str) -> Usage:
    """Report the usage of the GPUs of a cluster in files.

    Args:
        cluster: Files and folders.
        namespace: The only namespace whose pods and claims are shown; empty for all.

    Raises:
        UnreadableInputError: Files have problems.
        click.UsageError: The files have no nodes and no slices.
        NoNamespaceError: The namespace does not exist.
    """
    view = ManifestsView(read_cluster_files(cluster, None).facts)
    if view.list("Node") is UNKNOWN and view.list("ResourceSlice") is UNKNOWN:
        raise click.UsageError(
            f"nothing to show: no Node and no ResourceSlice in {', '.join(cluster)}; "
            "kubectl get nodes,resourceslices -o yaml prints those of a cluster"
        )
    check_namespace_exists(view, namespace)
    notes = [f"the files have no {kind}s, so {WITHOUT[kind]}" for kind in READ_FROM if view.list(kind) is UNKNOWN]
    return Usage(usage_report(view, namespace), tuple(notes))


def as_json(usage: Usage) -> str:
    """The report and the notes as one mapping."""
    return output_text(usage_json(usage.report, usage.notes), UsageJSON)
