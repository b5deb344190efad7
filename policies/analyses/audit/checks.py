"""Checks of stored objects: configuration, escaped pods, nodes, ResourceQuotas, node pools."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from policies.admission import (
    ConversionResult,
    is_converted,
    judged_findings,
    kinds_of,
    missing_templates,
    requests_device_plugin,
    review,
    review_concern,
)
from policies.analyses.audit.audit_report import AuditFinding
from policies.analyses.autoscaling import growth_of_pool
from policies.conversion.convert import converted_pod
from policies.conversion.exemptions import Mode, mode_of, strategy_of
from policies.conversion.record import ConversionRecord
from policies.conversion.surroundings import effective_quotas, kubelets_read_claims, one_way_per_node
from policies.conversion.templates import is_our_name, is_ours, references
from policies.devices.resource_claims import Claim
from policies.fleet.device_plugin import active_cluster_policy, nodes_with_both, old_kubelets, runs_device_plugin
from policies.kubernetes.bounds import check_cancelled
from policies.kubernetes.names import IGNORE, MANAGED, format_list, printable, shown
from policies.kubernetes.objects import FieldPath, lookup, name_of, namespace_of, uid_of
from policies.kubernetes.view import ChangedView, PassingView
from policies.kubernetes.workloads import group_of
from policies.nvidia.mig import parse_resource
from policies.outcome import Outcome
from policies.rules.decision import Finding, Rule, Severity
from policies.rules.request import Request

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.analyses.audit.readiness import ConversionReadiness
    from policies.analyses.audit.survey import Conversions, PodForm, PodName, Survey
    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView, Key
    from policies.rules.settings import GPUAdmissionPolicy


_REVIEWED = {
    kind: (group, entry) for entry in ("configuration", "nodes", "claims") for group, kind in sorted(kinds_of(entry))
} | {"Namespace": ("", "configuration")}
"""The kinds whose objects are reviewed, each with its API group and its webhook entry."""

_ONE_PER_CLUSTER = frozenset({"ClusterPolicy", "GPUCluster"})
"""Kinds of which a second object is wrong; the first one stays right."""
_MANY = frozenset({"ResourceClaim", "ResourceClaimTemplate"})
"""Kinds with up to tens of thousands of objects that differ in name only, such as claims from one template."""


def configuration_findings(namespace: str, view: ClusterView, settings: GPUAdmissionPolicy) -> Iterator[AuditFinding]:
    """Findings on stored configuration, by the rules for new objects; an empty namespace stands for all."""
    for kind, (group, entry) in _REVIEWED.items():
        for alike, narrowed in _objects_to_review(kind, namespace, _AllConfigMapsView(view)):
            check_cancelled()
            document = alike[0]
            if entry == "claims":
                document = {field: value for field, value in document.items() if field != "status"}
            where, name = namespace_of(document), name_of(document)
            request = Request(document, group=group, kind=kind, namespace=where, name=name, entry=entry)
            findings = review(request, narrowed, settings).findings
            holders = _holders(alike) if findings else ()
            for finding in findings:
                yield AuditFinding.of(finding, alike[0], count=len(alike), owners=holders)


class _AllConfigMapsView(PassingView):
    """A cluster with all ConfigMaps under review: objects that refer to one do not repeat its mistakes."""

    def objects_under_review(self, kind: str) -> Sequence[Object]:
        """The objects of a kind that are reviewed together."""
        return self.known_objects(kind) if kind == "ConfigMap" else ()


def _objects_to_review(kind: str, namespace: str, view: ClusterView) -> Iterator[tuple[Sequence[Object], ClusterView]]:
    """The objects of a kind in groups of equal ones, each group with the view for its review."""
    listed = view.known_objects(kind, "" if kind == "Namespace" else namespace)
    objects = []
    for each in listed:
        check_cancelled()
        if (
            group_of(each) == _REVIEWED[kind][0]
            and namespace in ("", name_of(each) if kind == "Namespace" else namespace_of(each))
            and lookup(each, ("metadata", "deletionTimestamp")) is None
            and not is_ours(each)
        ):
            objects.append(each)
    if kind in _MANY:
        yield from ((alike, view) for alike in _alike(objects))
        return
    if kind not in _ONE_PER_CLUSTER or len(objects) < 2:
        yield from (([each], view) for each in objects)
        return
    objects.sort(key=lambda each: (str(lookup(each, ("metadata", "creationTimestamp")) or ""), name_of(each)))
    # Each is reviewed in a cluster without those that came after it.
    later: dict[Key, None] = {(kind, namespace_of(each), name_of(each)): None for each in listed}
    for each in objects:
        del later[kind, namespace_of(each), name_of(each)]
        yield [each], ChangedView(view, {**later})


def _alike(objects: Sequence[Object]) -> list[list[Object]]:
    """Groups of objects that have the same namespace, spec and waivers, in the order of the names."""
    groups: dict[tuple[str, str], list[Object]] = {}
    for each in sorted(objects, key=name_of):
        check_cancelled()
        waivers = lookup(each, ("metadata", "annotations", IGNORE))
        key = namespace_of(each), json.dumps([each.get("spec"), waivers], sort_keys=True)
        groups.setdefault(key, []).append(each)
    return list(groups.values())


def _holders(claims: Sequence[Object]) -> tuple[str, ...]:
    """The consumers of claims, such as `Pod train-0`; empty for objects of other kinds."""
    consumers = (consumer for each in claims if each["kind"] == "ResourceClaim" for consumer in Claim(each).consumers)
    return tuple(sorted({f"{_consumer_kind(each)} {lookup(each, ('name',))}" for each in consumers}))


def _consumer_kind(consumer: Any) -> str:
    resource = lookup(consumer, ("resource",))
    return "Pod" if resource == "pods" else str(resource)


TEMPLATE_MISSING = Rule(
    "template-missing",
    "The template of a converted pod must exist",
    default=Severity.DENY,
    why="A pod waits until the ResourceClaimTemplates that it names exist.",
    remedy="create the pod again: its request cannot be recovered, or its namespace no longer converts",
    source="docs/conversion.md",
)
"""Only the audit has this rule, so no list of rules has it."""

_IS_REPAIRED = "wait for the leader, which creates it again every few minutes; if it does not, its log says why"
_CLAIMS = FieldPath(["spec", "resourceClaims"])
_CONTAINERS = FieldPath(["spec", "containers"])
_ESCAPED = (
    "requests GPUs from the device plugin in a namespace that converts: the pod is older than the opt-in, was created "
    "while the webhook was down, or was created by an exempt user"
)
_ESCAPED_REMEDY = "create it again (kubectl rollout restart, if a workload creates it)"


def pod_findings(
    survey: Survey, conversions: Conversions, view: ClusterView, settings: GPUAdmissionPolicy
) -> Iterator[AuditFinding]:
    """Findings on existing pods, by the rules for new ones."""
    for form in survey.pods.values():
        check_cancelled()
        findings = list(form.access)
        if mode_of(form.namespace, view) is Mode.ENABLED and not conversions.never_converts(form.namespace):
            findings += _conversion_findings(form, conversions, view, settings)
        # Both concerns report invalid waivers.
        for finding in dict.fromkeys(findings):
            yield _finding_of(finding, form, form.first, form.count)


def template_findings(survey: Survey, view: ClusterView, settings: GPUAdmissionPolicy) -> Iterator[AuditFinding]:
    """Converted pods that wait for a template that does not exist."""
    for form in survey.pods.values():
        if (
            form.first_waiting is None
            or form.pod is None
            or lookup(form.pod, ("metadata", "labels", MANAGED)) != "true"
        ):
            continue
        check_cancelled()
        missing = [
            name
            for name in sorted(filter(is_our_name, references(form.pod)))
            if view.get("ResourceClaimTemplate", name, form.namespace) is None
        ]
        repaired = {template.name for template in missing_templates([form.pod], view, settings)} if missing else set()
        for name in missing:
            text = f'refer to ResourceClaimTemplate "{name}", which does not exist'
            finding = TEMPLATE_MISSING.finding(_CLAIMS, text, _IS_REPAIRED if name in repaired else None)
            yield _finding_of(finding, form, form.first_waiting, form.waiting)


def _finding_of(finding: Finding, form: PodForm, first: PodName, count: int) -> AuditFinding:
    """The finding on so many pods of a form, named after the first of them."""
    owners = tuple(sorted(filter(None, form.owners)))
    metadata = {"name": first.name, "namespace": form.namespace, "uid": first.uid}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
    return AuditFinding.of(finding, pod, count=count, owners=owners)


def _conversion_findings(
    form: PodForm, conversions: Conversions, view: ClusterView, settings: GPUAdmissionPolicy
) -> tuple[Finding, ...]:
    """The reason why a pod of a namespace that converts is not as conversion would have left it."""
    if form.pod is None:
        return ()
    if is_converted(form.pod):
        return review_concern("conversion-check", Request(form.pod, namespace=form.namespace), view, settings).findings
    if not requests_device_plugin(form.pod, view):
        return ()
    conversion = conversions.of(form.namespace, form.form, form.pod)
    if conversion.result is ConversionResult.CONVERTED:
        escaped = converted_pod.rule.finding(_CONTAINERS, _ESCAPED, _ESCAPED_REMEDY)
        return judged_findings([escaped], Request(form.pod, namespace=form.namespace), settings)
    return conversion.findings


KARPENTER = Rule(
    "karpenter",
    "Karpenter must create nodes for pods with claims",
    default=Severity.AUDIT,
    why="""
    Karpenter's pools grow for pods that request resources. Since August 2025 Karpenter ignores pods with claims; its
    support of DRA, for GPUs on AWS since 1.15, is alpha and off by default. EKS Auto Mode has it on Kubernetes 1.36 and
    newer.
    """,
    remedy="turn on Karpenter's support of DRA (settings.enableDRA of 1.15 on AWS, ignoreDRARequests: false on Google Cloud), "
    "or leave namespaces that need its GPU nodes unconverted",
    source="kubernetes-sigs/karpenter pull request 2384, issues 3228 and 3231, pkg/operator/options/options.go; "
    "karpenter.sh/docs/tasks/dra (settings.enableDRA); docs.aws.amazon.com/eks/latest/userguide/device-management.html; "
    "karpenter-provider-gcp docs/settings.md (ignoreDRARequests, true by default)",
)
"""Only the audit has this rule, so no list of rules has it."""

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
            yield from _node_findings(one_way_per_node.rule.finding(_ALLOCATABLE, text), name, view, settings)
    for node, version in old_kubelets(view):
        text = (
            f"is {printable(version)}, which does not read claims of resource.k8s.io/v1; a pod with a claim would not "
            "start here"
        )
        yield from _node_findings(kubelets_read_claims.rule.finding(_KUBELET, text), node, view, settings)


def _is_by_cluster_policy(name: str, view: ClusterView) -> bool:
    node = view.get("Node", name)
    policy = active_cluster_policy(view)
    return isinstance(node, dict) and isinstance(policy, dict) and runs_device_plugin(node, view, policy)


def _node_findings(
    finding: Finding, node: str, view: ClusterView, settings: GPUAdmissionPolicy
) -> Iterator[AuditFinding]:
    found = view.get("Node", node)
    metadata = {"name": node, "uid": uid_of(found) if isinstance(found, dict) else ""}
    document = {"apiVersion": "v1", "kind": "Node", "metadata": metadata}
    yield from (AuditFinding.of(judged, document) for judged in settings.judge([finding], ""))


def quota_findings(namespace: str, view: ClusterView, settings: GPUAdmissionPolicy) -> Iterator[AuditFinding]:
    """ResourceQuotas on GPUs that do not count claims; an empty `namespace` stands for all."""
    for quota in view.known_objects("ResourceQuota", namespace):
        for finding in _findings_of_quota(quota, view, settings):
            yield AuditFinding.of(finding, quota)


def _findings_of_quota(quota: Object, view: ClusterView, settings: GPUAdmissionPolicy) -> tuple[Finding, ...]:
    namespace = namespace_of(quota)
    if strategy_of(namespace, view) == "leave":
        return ()
    others = [each for each in view.known_objects("ResourceQuota", namespace) if each is not quota]
    alone = ChangedView(view, {("ResourceQuota", namespace_of(each), name_of(each)): None for each in others})
    hard = lookup(quota, _HARD)
    limited = [
        resource
        for key in (hard if isinstance(hard, dict) else ())
        if key.startswith(_REQUESTS) and parse_resource(resource := key.removeprefix(_REQUESTS)) is not None
    ]
    converts = mode_of(namespace, view) is Mode.ENABLED
    effect = "opting the namespace in would switch the quota off"
    if converts:
        effect = "the namespace converts, so the quota is switched off"
    found: list[Finding] = []
    for resource in sorted(limited):
        path = _HARD / f"{_REQUESTS}{resource}"
        device_class = ConversionRecord(()).device_class(resource)
        for problem in effective_quotas(ConversionRecord(()), alone, namespace, {resource: path}, settings):
            text = f'is {shown(hard[path[-1]])}, and does not count the claims of converted pods (DeviceClass "{device_class}")'
            found.append(replace(problem, message=f"{text}; {effect}"))
    judged = settings.judge(found, namespace)
    return judged if converts else tuple(replace(finding, severity=Severity.AUDIT) for finding in judged)


def karpenter_findings(
    pools: Sequence[Object], readiness: Sequence[ConversionReadiness], view: ClusterView
) -> Iterator[AuditFinding]:
    """Node pools that create, or may create, GPU nodes, but not or not surely for pods with claims."""
    converting = [each.namespace for each in readiness if each.mode is Mode.ENABLED]
    for pool in pools:
        growth = growth_of_pool(pool, view)
        if growth is None or growth.outcome is Outcome.KEPT:
            continue
        keys = [
            *_keys(lookup(pool, (*_POOL_SPEC, "requirements"))),
            *_keys(lookup(pool, (*_POOL_SPEC, "taints"))),
            *_names(lookup(pool, ("spec", "template", "metadata", "labels"))),
            *_names(lookup(pool, ("spec", "limits"))),
        ]
        names_gpus = any(word in key for key in keys for word in _GPU_WORDS)
        namespaces = (
            f"namespaces that convert: {format_list(converting, _MOST_NAMESPACES)}"
            if converting
            else "no namespace converts yet"
        )
        nodes = "creates GPU nodes" if names_gpus else "does not mention GPUs, but may create GPU nodes"
        text = f"{nodes}; {growth.sentence}; {namespaces}"
        is_lost = growth.outcome is Outcome.LOST
        severity = Severity.WARN if converting and names_gpus and is_lost else Severity.AUDIT
        path = FieldPath(_POOL_SPEC) / "requirements"
        finding = KARPENTER.finding(path, text, severity=severity)
        # Pools in files have been given a namespace, like every object without one.
        metadata = {"name": name_of(pool), "uid": uid_of(pool)}
        yield AuditFinding.of(finding, {**pool, "kind": "NodePool", "metadata": metadata})


def _keys(items: object) -> Iterator[str]:
    for item in items if isinstance(items, list) else ():
        key = lookup(item, ("key",))
        if isinstance(key, str):
            yield key


def _names(mapping: object) -> Iterator[str]:
    for key in mapping if isinstance(mapping, dict) else ():
        if isinstance(key, str):
            yield key
