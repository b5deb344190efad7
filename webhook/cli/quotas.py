"""Reports on the quotas of clusters in files, and reports as JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from policies.kubernetes.objects import name_of, namespace_of
from policies.quota.report.report import QuotaState
from policies.quota.report.reporting import COUNTED_FROM, quota_report
from policies.view import UNKNOWN
from webhook.cli.options import check_namespace_exists
from webhook.cli.settings import read_cluster_files
from webhook.cluster.manifests import ManifestsView

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policies.quota.report.report import QuotaReport
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView

__all__ = ["QUOTA", "WITHOUT", "QuotaReports", "as_json", "quota_reports", "report_quotas_of_files", "unknown_kinds"]

QUOTA = "GPUQuota"
WITHOUT = {
    "Pod": "what they hold is not shown, and usage is shown only if a status has it",
    "ResourceClaim": "what they hold is not shown",
    "Node": "pods are shown with the most that they could have got",
}
"""What a report lacks if a kind cannot be read."""


@dataclass(frozen=True, slots=True)
class QuotaReports:
    """The reports on all quotas, and notes on settings and on kinds that cannot be read."""

    reports: tuple[QuotaReport, ...]
    """Sorted by namespace."""
    namespace: str
    """The only namespace that was looked into; empty for all."""
    notes: tuple[str, ...]
    """Sentences without full stops."""

    @property
    def all_within_limits(self) -> bool:
        """True if every quota is counted and within its limits."""
        return all(report.state is QuotaState.WITHIN for report in self.reports)


def report_quotas_of_files(cluster: Sequence[str], namespace: str, settings: str | None) -> QuotaReports:
    """Report the quotas of a cluster in files.

    Args:
        cluster: Files and folders.
        namespace: The only namespace to look into; empty for all.
        settings: The file with the administrator's settings; if None, the GPUAdmissionPolicy among the objects.

    Raises:
        UnreadableInputError: Files have problems.
        click.UsageError: The files have no GPUQuotas, or the namespace does not exist.
    """
    files = read_cluster_files(cluster, settings)
    view = ManifestsView(files.facts)
    if view.list(QUOTA) is UNKNOWN:
        raise click.UsageError(
            f"nothing to show: no GPUQuota in {', '.join(cluster)}; kubectl get gpuquotas -A -o yaml prints those of a "
            "cluster"
        )
    check_namespace_exists(view, namespace)
    gaps = [f"the files have no {kind}s, so {WITHOUT[kind]}" for kind in unknown_kinds(view)]
    return quota_reports(view, files.settings, namespace, [*files.notes, *gaps])


def quota_reports(view: ClusterView, policy: GPUAdmissionPolicy, namespace: str, notes: Sequence[str]) -> QuotaReports:
    """The reports on quotas; an empty `namespace` stands for all, and notes need a quota."""
    listed = view.list(QUOTA, namespace)
    quotas = sorted(() if listed is UNKNOWN else listed, key=lambda each: (namespace_of(each), name_of(each)))
    now = datetime.now(UTC)
    reports = tuple(quota_report(quota, view, policy, now) for quota in quotas)
    return QuotaReports(reports, namespace, tuple(notes) if reports else ())


def unknown_kinds(view: ClusterView) -> list[str]:
    """The kinds that quotas are counted from and that cannot be read."""
    return [kind for kind in COUNTED_FROM if view.list(kind) is UNKNOWN]


def as_json(quotas: QuotaReports) -> str:
    """The reports and the notes as one mapping."""
    content = {"quotas": [report.as_json() for report in quotas.reports], "notes": list(quotas.notes)}
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"
