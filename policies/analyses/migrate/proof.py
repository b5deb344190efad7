"""One cell of the table of a proof."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from policies.admission import common_part, form_of, review
from policies.analyses.autoscaling import growth_of_cluster
from policies.analyses.migrate import migrate_pod
from policies.analyses.migrate.migrated_cluster import migrated_cluster
from policies.kubernetes.names import format_count, format_list, inflect
from policies.kubernetes.objects import lookup, name_of
from policies.kubernetes.pod_templates import created_pod
from policies.kubernetes.view import UNKNOWN, ChangedView
from policies.nvidia.mig import parse_resource
from policies.outcome import Certainty, FitComparer, Outcome, Situation, subjects_of
from policies.quota.charging import charge_decision
from policies.quota.counting import charged_amounts
from policies.quota.demands.bills import Uncountable
from policies.quota.limits.amounts import amount_text
from policies.quota.limits.cluster_quota import quotas_shown, without_quotas
from policies.quota.limits.quota import GROUP, QuotaError, parse_quota
from policies.rules.decision import Severity
from policies.rules.request import Request

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from policies.analyses.migrate import MigratedPod
    from policies.analyses.migrate.migrated_cluster import MigratedCluster
    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView, Unknown
    from policies.outcome import FitComparison, Subject
    from policies.quota.limits.quota import Quota
    from policies.rules.charges import Amounts, ChargeRequest
    from policies.rules.decision import Finding
    from policies.rules.settings import GPUAdmissionPolicy


@dataclass(frozen=True, slots=True)
class Cell:
    """The verdict on one property."""

    outcome: Outcome
    sentence: str
    """The reason, without a full stop."""
    certainty: Certainty = Certainty.SEEN
    """Predicted if nodes have other devices after the migration, which no ResourceSlice shows yet."""


_REQUESTS = "requests."


def _likeness(subject: Subject) -> tuple[str, bytes]:
    """A key, equal for subjects whose pods are converted and charged alike.

    Rules read only the common part of a pod, and nothing that is charged depends on the rest.
    """
    return subject.namespace, form_of(common_part(subject.document))


class PodCharges:
    """The charges of pods in two clusters; like pods are charged once."""

    def __init__(self, before: Situation, after: Situation) -> None:
        """Keep the clusters before and after a migration."""
        self.before, self._after = before, after
        self._known: dict[tuple[str, bytes], Sequence[ChargeRequest | None]] = {}

    def of(self, subject: Subject) -> Sequence[ChargeRequest | None]:
        """The charges of a pod of the subject before and after; None if it is refused, or requests no GPUs."""
        key = _likeness(subject)
        if key not in self._known:
            self._known[key] = [_charge_of(subject, each) for each in (self.before, self._after)]
        return self._known[key]


def quota_cell(subject: Subject, charged: PodCharges, certainty: Certainty) -> Cell:
    """The cell about the quotas of the namespace: kept if they count the same.

    Args:
        subject: The pods of a template.
        charged: The charges before and after the migration.
        certainty: How sure the devices of the pods are after it.
    """
    view = charged.before.view
    if uncounted := _find_uncounted(subject.namespace, view):
        return Cell(Outcome.LOST, uncounted)
    quotas = [*quotas_shown(subject.namespace, view)]
    if not quotas:
        return Cell(Outcome.KEPT, "no quota counts it")
    charges = charged.of(subject)
    kept = []
    for names, document in quotas:
        owner = f"{GROUP} {names.name}" if document.get("kind") == GROUP else "the GPUQuota"
        try:
            quota = parse_quota(document)
            was, will_be = (charged_amounts([(each, subject.count)] if each else [], quota) for each in charges)
        except (QuotaError, Uncountable) as error:
            return Cell(Outcome.UNKNOWN, f"{owner} cannot count it: {error}")
        if was != will_be:
            text = f"{owner} counts {_amounts(will_be, quota)} instead of {_amounts(was, quota)}"
            return Cell(Outcome.LOST, text, certainty)
        kept.append(f"{owner} counts the same: {_amounts(will_be, quota)}")
    return Cell(Outcome.KEPT, "; ".join(kept), certainty)


def _find_uncounted(namespace: str, view: ClusterView) -> str:
    """The problem if a ResourceQuota limits the resources of device plugins but no claims; else empty."""
    for quota in view.known_objects("ResourceQuota", namespace):
        hard = lookup(quota, ("spec", "hard"))
        names = [key for key in hard if isinstance(key, str)] if isinstance(hard, dict) else []
        counted = [key for key in names if parse_resource(key.removeprefix(_REQUESTS)) is not None]
        if counted and not any("deviceclass.resource.k8s.io/" in key for key in names):
            return f"ResourceQuota {name_of(quota)} limits {format_list(sorted(counted))}, which claims do not use"
    return ""


def _charge_of(subject: Subject, situation: Situation) -> ChargeRequest | None:
    """The charge of a pod of the subject, as it is admitted; None if it is refused, or requests no GPUs."""
    settings = situation.settings
    # The pods of the subject may use up the quota themselves.
    view = ChangedView(situation.view, without_quotas(subject.namespace, situation.view))
    created = Request(created_pod(subject.document, subject.namespace, view), namespace=subject.namespace)
    decision = review(created, view, settings)
    if not decision.allowed:
        return None
    seen = ChangedView(view, {each.key: each.manifest() for each in decision.templates})
    charges = charge_decision(created.of(decision.object), seen, settings).charges
    return charges[0] if charges else None


def _amounts(amounts: Amounts, quota: Quota) -> str:
    texts = [
        f"{limit.name} {amount_text(limit.unit, amounts[limit.name])}"
        for limit in quota.limits
        if amounts.get(limit.name)
    ]
    return format_list(texts) if texts else "nothing"


PROPERTIES = ("fit", "devices", "quota", "preemption", "autoscaling")
"""The properties of a workload that are compared, in the order of the columns."""
_PREEMPTION = "GA335"
_SOURCES = {"ResourceSlice": "ResourceSlices", "DeviceClass": "DeviceClasses"}
"""Kinds that say which devices a claim may get, and their plurals."""


@dataclass(frozen=True, slots=True)
class WorkloadProof:
    """The verdicts on a workload, or on pods without one."""

    label: str
    """For people: `Deployment team-a/web`."""
    namespace: str
    pods: int
    left: str
    """The reason why it is not migrated; empty if it is."""
    cells: Mapping[str, Cell]
    """By the names of `PROPERTIES`."""
    findings: tuple[Finding, ...] = ()
    """Findings of the conversion: why it is not migrated, or warnings."""

    @property
    def loses(self) -> bool:
        """True if something is lost, or GPUs of another quality replace what it has."""
        return any(cell.outcome in (Outcome.LOST, Outcome.CHANGED) for cell in self.cells.values())


@dataclass(frozen=True, slots=True)
class Proof:
    """The verdicts on all workloads that request GPUs of a device plugin."""

    workloads: tuple[WorkloadProof, ...]
    assumptions: tuple[str, ...]
    """The assumptions of the cells; sentences without a full stop."""

    @property
    def loses(self) -> bool:
        """True if a workload loses something."""
        return any(each.loses for each in self.workloads)


def prove_migration(view: ClusterView, settings: GPUAdmissionPolicy, namespace: str = "") -> Proof:
    """Compare all workloads of a cluster before and after their migration, as `MigrationProver` does.

    Args:
        view: The cluster; its nodes must be known.
        settings: The administrator's settings.
        namespace: The only namespace whose workloads are compared; empty for all.
    """
    subjects = subjects_of(view, settings)
    prover = MigrationProver(view, settings, {subject.namespace for subject in subjects})
    proofs = (prover.prove(subject) for subject in subjects if namespace in ("", subject.namespace))
    return Proof(tuple(each for each in proofs if each is not None), tuple(_assumptions(prover.cluster)))


class MigrationProver:
    """Compares workloads before and after the migration of a cluster to claims.

    After it, all nodes use NVIDIA's DRA driver except those that share their GPUs, all namespaces convert, and running
    pods hold their devices by claims.
    """

    def __init__(
        self,
        view: ClusterView,
        settings: GPUAdmissionPolicy,
        namespaces: Iterable[str],
        *,
        node_pools: Sequence[Object] | Unknown | None = None,
    ) -> None:
        """Predict the cluster after its migration.

        Args:
            view: The cluster.
            settings: The administrator's settings.
            namespaces: Those with workloads.
            node_pools: The pools of Karpenter; None for those of the view.
        """
        self._settings = settings
        self.cluster = migrated_cluster(view, namespaces)
        before, after = Situation(view, settings), Situation(self.cluster.view, settings)
        self._predicted = frozenset(self.cluster.predicted)
        self.comparer = FitComparer(before, after)
        growth = growth_of_cluster(view, view.list("NodePool") if node_pools is None else node_pools)
        self._autoscaling = Cell(growth.outcome, growth.sentence)
        self._migrated: dict[tuple[str, bytes], MigratedPod] = {}
        self._charges = PodCharges(before, after)

    def prove(self, subject: Subject) -> WorkloadProof | None:
        """The verdicts on a subject; None if it requests no GPUs of a device plugin."""
        if not subject.is_pod:
            return None
        key = _likeness(subject)
        if key not in self._migrated:
            self._migrated[key] = migrate_pod(subject.document, subject.namespace, self.cluster.view, self._settings)
        pod = self._migrated[key]
        if pod.pod is None and not pod.is_left:
            return None
        fit = self.comparer.compare(subject)
        is_seen = self._predicted.isdisjoint(fit.before.nodes | fit.after.nodes)
        certainty = Certainty.SEEN if is_seen else Certainty.PREDICTED
        cells = {"fit": replace(_fit_cell(fit), certainty=certainty)}
        if pod.is_left:
            kept = Cell(Outcome.KEPT, "not migrated")
            cells |= dict.fromkeys(PROPERTIES[1:], kept)
        else:
            cells |= {
                "devices": replace(_devices_cell(fit, self.cluster.view), certainty=certainty),
                "quota": quota_cell(subject, self._charges, certainty),
                "preemption": _preemption_cell(pod),
                "autoscaling": self._autoscaling,
            }
        known = {
            key: replace(cell, certainty=Certainty.UNKNOWN) if cell.outcome is Outcome.UNKNOWN else cell
            for key, cell in cells.items()
        }
        return WorkloadProof(subject.label, subject.namespace, subject.count, _why_left(pod), known, pod.findings)


def _why_left(pod: MigratedPod) -> str:
    denied = [str(each) for each in pod.findings if each.severity is Severity.DENY]
    return (pod.reason or (denied or [str(each) for each in pod.findings])[0]) if pod.is_left else ""


def _fit_cell(fit: FitComparison) -> Cell:
    if fit.outcome not in (Outcome.KEPT, Outcome.CHANGED):
        return Cell(fit.outcome, fit.sentence)
    fewer = fit.before.nodes - fit.after.nodes
    if fewer:
        # As many pods find a place, and yet fewer nodes could take one when they are empty.
        names = format_list(sorted(fewer))
        return Cell(Outcome.LOST, f"no longer fits on {format_count(len(fewer), 'node')}: {names}")
    if not fit.after.nodes:
        return Cell(Outcome.KEPT, f"fits on no node, before and after: {fit.after.why}")
    return Cell(Outcome.KEPT, f"fits on {format_count(len(fit.after.nodes), 'node')}")


def _devices_cell(fit: FitComparison, view: ClusterView) -> Cell:
    """The cell about the devices: kept if the pods get the same GPUs, or better ones."""
    missing = [name for kind, name in _SOURCES.items() if view.list(kind) is UNKNOWN]
    if missing:
        return Cell(Outcome.UNKNOWN, f"unknown without {format_list(missing)}")
    was, will_be = (format_list(sorted(each.words for each in found.grants)) for found in (fit.before, fit.after))
    if fit.outcome is Outcome.UNKNOWN:
        return Cell(Outcome.UNKNOWN, "the GPUs that it gets are unknown")
    if fit.changes:
        return Cell(Outcome.CHANGED, fit.changes_text)
    if not fit.after.grants:
        return Cell(Outcome.LOST if fit.before.grants else Outcome.KEPT, f"gets no GPU; before, {was}")
    return Cell(Outcome.KEPT, will_be)


def _preemption_cell(pod: MigratedPod) -> Cell:
    lost = [each for each in pod.findings if each.rule.id == _PREEMPTION]
    if lost:
        return Cell(Outcome.LOST, lost[0].message)
    return Cell(Outcome.KEPT, "no pod of lower priority holds what it requests")


def _assumptions(cluster: MigratedCluster) -> list[str]:
    assumptions = []
    if cluster.predicted:
        assumptions.append(
            f"the devices of {format_count(len(cluster.predicted), 'node')} without ResourceSlices are predicted from "
            f"node labels: {format_list(cluster.predicted)}"
        )
    if cluster.sharing:
        assumptions.append(
            f"{format_count(len(cluster.sharing), 'node')} {inflect('shares', len(cluster.sharing))} GPUs, so the device "
            f"plugin stays: {format_list(cluster.sharing)}"
        )
    if cluster.unplaced:
        assumptions.append(
            f"{format_count(len(cluster.unplaced), 'pod')} {inflect('holds', len(cluster.unplaced))} more GPUs than the "
            f"node shows: {format_list(cluster.unplaced)}"
        )
    return assumptions
