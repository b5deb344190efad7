"""Nodes, ResourceQuotas and Karpenter's node pools that conflict with conversion."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from policies.audit.report import AuditFinding
from policies.conversion.opt_in import Mode, mode_of, strategy_of
from policies.conversion.record import ConversionRecord
from policies.conversion.surroundings import OLD_KUBELET, TWICE, quota_problems
from policies.decision import Rule, Severity
from policies.fleet.device_plugin import active_cluster_policy, runs_device_plugin
from policies.fleet.dra_nodes import nodes_with_both, old_kubelets
from policies.kubernetes.objects import name_of, namespace_of, uid_of
from policies.kubernetes.paths import FieldPath, lookup
from policies.kubernetes.printable import printable, shown
from policies.nvidia.resources import parse_resource
from policies.phrases import format_list
from policies.view import UNKNOWN, ChangedView

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.audit.readiness import ConversionReadiness
    from policies.decision import Finding
    from policies.kubernetes.objects import Object
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView

__all__ = ["KARPENTER", "karpenter_findings", "node_findings", "quota_findings"]

KARPENTER = Rule(
    "karpenter",
    "Karpenter must create nodes for pods with claims",
    default=Severity.AUDIT,
    why="""
    Karpenter's pools grow for pods that request resources. Since August 2025 Karpenter ignores pods with claims; its
    support of DRA is alpha, off by default, and not visible in the cluster.
    """,
    remedy="turn on Karpenter's support of DRA (settings.enableDRA on AWS, ignoreDRARequests: false on Google Cloud), "
    "or leave namespaces that need its GPU nodes unconverted",
    source="kubernetes-sigs/karpenter pull request 2384, issues 3228 and 3231; karpenter.sh/docs/tasks/dra "
    "(settings.enableDRA); karpenter-provider-gcp docs/settings.md (ignoreDRARequests, true by default)",
)
"""Only the audit has this rule, so it is not registered."""

_ALLOCATABLE = FieldPath(("status", "allocatable"))
_KUBELET = FieldPath(("status", "nodeInfo", "kubeletVersion"))
_HARD = FieldPath(["spec", "hard"])
_REQUESTS = "requests."
_POOL_SPEC = ("spec", "template", "spec")
_GPU_WORDS = ("nvidia", "gpu")
_MOST_NAMESPACES = 3


def node_findings(namespace: str, view: ClusterView, settings: GPUAdmissionPolicy) -> Iterator[AuditFinding]:
    """Nodes that hand out GPUs both ways, and nodes whose kubelet cannot read claims.

    Empty if only one namespace is audited. If the ClusterPolicy runs the device plugin on the nodes, the finding is on
    the ClusterPolicy (GA145).
    """
    if namespace:
        return
    for name in nodes_with_both(view):
        if not _is_by_cluster_policy(name, view):
            text = "hands out the same GPUs by device plugin and by DRA; two pods could get one GPU"
            yield from _node_findings(TWICE.finding(_ALLOCATABLE, text), name, view, settings)
    for node, version in old_kubelets(view):
        text = (
            f"is {printable(version)}, which does not read claims of resource.k8s.io/v1; a pod with a claim would not "
            "start here"
        )
        yield from _node_findings(OLD_KUBELET.finding(_KUBELET, text), node, view, settings)


def _is_by_cluster_policy(name: str, view: ClusterView) -> bool:
    node = view.get("Node", name)
    policy = active_cluster_policy(view)
    return isinstance(node, dict) and isinstance(policy, dict) and runs_device_plugin(node, view, policy)


def _node_findings(
    finding: Finding, node: str, view: ClusterView, settings: GPUAdmissionPolicy
) -> Iterator[AuditFinding]:
    found = view.get("Node", node)
    uid = uid_of(found) if isinstance(found, dict) else ""
    for judged in settings.judge([finding], ""):
        yield AuditFinding.of(judged, "Node", "", node, api_version="v1", uid=uid)


def quota_findings(namespace: str, view: ClusterView, settings: GPUAdmissionPolicy) -> Iterator[AuditFinding]:
    """ResourceQuotas on GPUs that do not count claims; an empty `namespace` stands for all."""
    quotas = view.list("ResourceQuota", namespace)
    for quota in () if quotas is UNKNOWN else quotas:
        for finding in _findings_of_quota(quota, view, settings):
            yield AuditFinding.of_object(finding, quota)


def _findings_of_quota(quota: Object, view: ClusterView, settings: GPUAdmissionPolicy) -> tuple[Finding, ...]:
    namespace = namespace_of(quota)
    if strategy_of(namespace, view) == "leave":
        return ()
    listed = view.list("ResourceQuota", namespace)
    others = [each for each in (() if listed is UNKNOWN else listed) if each is not quota]
    alone = ChangedView(view, {("ResourceQuota", namespace_of(each), name_of(each)): None for each in others})
    hard = lookup(quota, _HARD)
    limited = [
        resource
        for key in (hard if isinstance(hard, dict) else ())
        if key.startswith(_REQUESTS) and parse_resource(resource := key.removeprefix(_REQUESTS)) is not None
    ]
    found: list[Finding] = []
    for resource in sorted(limited):
        path = _HARD / f"{_REQUESTS}{resource}"
        device_class = ConversionRecord(()).device_class(resource)
        for problem in quota_problems(ConversionRecord(()), alone, namespace, {resource: path}, settings):
            text = f'is {shown(hard[path[-1]])}, and does not count the claims of converted pods (DeviceClass "{device_class}")'
            found.append(replace(problem, message=f"{text}; {_effect(namespace, view)}"))
    judged = settings.judge(found, namespace)
    if mode_of(namespace, view) is Mode.ENABLED:
        return judged
    return tuple(replace(finding, severity=Severity.AUDIT) for finding in judged)


def _effect(namespace: str, view: ClusterView) -> str:
    if mode_of(namespace, view) is Mode.ENABLED:
        return "the namespace converts, so the quota is switched off"
    return "opting the namespace in would switch the quota off"


def karpenter_findings(pools: Sequence[Object], readiness: Sequence[ConversionReadiness]) -> Iterator[AuditFinding]:
    """Node pools that create, or may create, GPU nodes, but not for pods with claims."""
    converting = [each.namespace for each in readiness if each.mode is Mode.ENABLED]
    for pool in pools:
        if lookup(pool, ("spec", "replicas")) is not None:
            # A static pool has its nodes whatever pods request.
            continue
        names_gpus = _names_gpus(pool)
        namespaces = (
            f"namespaces that convert: {format_list(converting, _MOST_NAMESPACES)}"
            if converting
            else "no namespace converts yet"
        )
        nodes = "creates GPU nodes" if names_gpus else "does not mention GPUs, but may create GPU nodes"
        text = f"{nodes}; Karpenter creates none for pods with claims unless its support of DRA (alpha) is on; {namespaces}"
        severity = Severity.WARN if converting and names_gpus else Severity.AUDIT
        path = FieldPath(_POOL_SPEC) / "requirements"
        finding = KARPENTER.finding(path, text, severity=severity)
        # Pools in files have been given a namespace, like every object without one.
        version = str(pool.get("apiVersion") or "")
        yield AuditFinding.of(finding, "NodePool", "", name_of(pool), api_version=version, uid=uid_of(pool))


def _names_gpus(pool: Object) -> bool:
    """True if the requirements, taints, labels or limits of a pool mention GPUs."""
    keys = [
        *_keys(lookup(pool, (*_POOL_SPEC, "requirements"))),
        *_keys(lookup(pool, (*_POOL_SPEC, "taints"))),
        *_names(lookup(pool, ("spec", "template", "metadata", "labels"))),
        *_names(lookup(pool, ("spec", "limits"))),
    ]
    return any(word in key for key in keys for word in _GPU_WORDS)


def _keys(items: object) -> Iterator[str]:
    for item in items if isinstance(items, list) else ():
        key = lookup(item, ("key",))
        if isinstance(key, str):
            yield key


def _names(mapping: object) -> Iterator[str]:
    for key in mapping if isinstance(mapping, dict) else ():
        if isinstance(key, str):
            yield key
