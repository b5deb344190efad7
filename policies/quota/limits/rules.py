"""Rules on GPUQuotas and ClusterGPUQuotas: invalid ones are refused; idle ones cause a warning."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from policies.devices.published_devices import gpu_groups
from policies.kubernetes.names import QUOTA_LABEL, closest, format_list, shown
from policies.kubernetes.objects import FieldPath, lookup, mapping_at, name_of
from policies.kubernetes.view import UNKNOWN
from policies.nvidia.identifiers import PRODUCT_LABEL
from policies.nvidia.product_proposals import propose_patterns
from policies.nvidia.products import Product
from policies.quota.demands.device_kinds import node_kinds, visible_kinds
from policies.quota.limits.amounts import quoted_value
from policies.quota.limits.cluster_quota import CLUSTER_QUOTA, parse_cluster_quota, read_tenancy
from policies.quota.limits.quota import ENFORCED, QuotaError, parse_quota
from policies.quota.limits.selectors import GLOBS, Match, Selector
from policies.rules.charges import DeviceKind
from policies.rules.checks import Problem, RulesOn
from policies.rules.decision import Severity
from policies.rules.settings.exemptions import exemption_in_cluster

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView
    from policies.quota.limits.quota import Limit, Quota
    from policies.rules.decision import Finding
    from policies.rules.request import Request
    from policies.rules.settings import GPUAdmissionPolicy


_SHOWN = "that nodes or ResourceSlices show"
_MISSED = {
    "products": f"is the product of no GPU {_SHOWN}",
    "profiles": f"is the profile of no MIG device {_SHOWN}",
    "priorityClasses": "matches no existing PriorityClass",
}
_LATER = "leave it if that comes later"
_MOST_NAMED = 3


GPU_QUOTAS = RulesOn("GPUQuota")
_ALL_QUOTAS = RulesOn("GPUQuota", CLUSTER_QUOTA)


def validate(request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> Iterator[Finding]:
    """Findings about a GPUQuota or ClusterGPUQuota that is created or updated."""
    if request.operation != "DELETE" and isinstance(request.object, dict):
        yield from readable_quota(request)
        if request.kind == CLUSTER_QUOTA:
            yield from effective_team_quota(request, view, settings)
        else:
            yield from effective_quota(request.namespace, settings)
        yield from counting_limits(request, view)


def _parse(request: Request) -> Quota:
    if request.kind == CLUSTER_QUOTA:
        return parse_cluster_quota(request.object).quota
    return parse_quota(request.object)


def _keeps_spec(request: Request) -> bool:
    """True if an update changes labels or annotations only."""
    return request.old_object is not None and lookup(request.old_object, _SPEC) == lookup(request.object, _SPEC)


_SPEC = FieldPath(["spec"])


@_ALL_QUOTAS.rule(
    "GA501",
    "A GPUQuota must be readable and consistent",
    remedy="correct the named fields; docs/quota.md describes every field",
    source="docs/quota.md",
    fixed=True,
)
def readable_quota(request: Request) -> Iterator[Problem]:
    """A quota with a mistake limits nothing, and if quotas are enforced its namespace gets no GPU at all.

    So no user can store one, whatever severities and exemptions are set. Labels and annotations of what is stored
    already can be changed all the same, and it can be deleted.
    """
    try:
        quota = _parse(request)
    except QuotaError as error:
        # A stored quota may be invalid only for this newer version, and a user who labels it did not write it.
        for each in error.problems:
            yield replace(each, severity=Severity.WARN) if _keeps_spec(request) else each
        return
    for index, limit in enumerate(quota.limits):
        if limit.expected is not None and limit.expected > limit.hard:
            at = _SPEC / "limits" / index
            most, least = (quoted_value(lookup(request.object, at / field)) for field in (limit.unit, "min"))
            text = f"is {least}, more than the limit of {most}, so a group can never have it"
            yield Problem(at / "min", text, f"write at most {most}", severity=Severity.WARN)


@GPU_QUOTAS.rule(
    "GA507",
    "A GPUQuota must not be in a namespace that is exempt from quotas",
    default=Severity.WARN,
    remedy="delete the GPUQuota; docs/settings.md says which namespaces are exempt",
    source="docs/quota.md",
    fixed=True,
)
def effective_quota(namespace: str, settings: GPUAdmissionPolicy) -> Iterator[Problem]:
    """Pods that run the cluster and hand out its GPUs must start even while nothing can be counted.

    So pods and claims of its namespaces are never charged, and a GPUQuota there limits nothing. Its condition `Enforced`
    is `False` with the reason `Exempt`.
    """
    if why := exemption_in_cluster("quota", namespace, settings):
        text = f'namespace "{namespace}" is exempt from quotas ({why}), so this GPUQuota limits nothing'
        yield Problem(FieldPath(["metadata", "namespace"]), text)


@_ALL_QUOTAS.rule(
    "GA508",
    "A limit must count GPUs or PriorityClasses that the cluster has",
    default=Severity.WARN,
    remedy="write an existing name, or leave it if the name comes later",
    source="docs/quota.md; labels of nodes and ResourceSlices",
    fixed=True,
)
def counting_limits(request: Request, view: ClusterView) -> Iterator[Problem]:
    """A limit whose globs match no product, MIG profile or PriorityClass counts and limits nothing.

    The name may come later, with a new node for example, so this only warns. A glob that matches nothing beside others
    that match is noted for the audit log.
    """
    try:
        quota = _parse(request)
    except QuotaError:
        return  # GA501 has reported it.
    if not _keeps_spec(request):
        yield from _limits_without_match(request.object or {}, quota.limits, view)


@RulesOn(CLUSTER_QUOTA, cluster_scoped=True).rule(
    "GA515",
    "A ClusterGPUQuota must hold in the namespaces that it chooses",
    default=Severity.WARN,
    remedy="choose other namespaces, or label them; docs/quota.md says when a team quota holds",
    source="docs/quota.md",
    fixed=True,
)
def effective_team_quota(request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> Iterator[Problem]:
    """Some namespaces are chosen without being limited.

    An older ClusterGPUQuota counts some already, and a namespace counts in one only. Some are exempt from quotas. Some lack
    the label `gpu-admission.io/quota: enforced`, so that their pods are admitted while nothing can be charged. The condition
    `Enforced` of the ClusterGPUQuota is `False` then. Those without the label of `groupBy` are outside of every group, which
    only the audit says.
    """
    try:
        quota = parse_cluster_quota(request.object)
    except QuotaError:
        return  # GA501 has reported it.
    if _keeps_spec(request):
        return
    namespaces = view.known_objects("Namespace")
    others = (each for each in view.known_objects(CLUSTER_QUOTA) if name_of(each) != quota.name)
    overlaps = read_tenancy([*others, request.object or {}]).overlaps(namespaces)
    doubled = {name: f"{name} ({older})" for name, older in overlaps.get(quota.name, {}).items()}
    taken = [
        f"{name} ({other})" for other, found in overlaps.items() for name, older in found.items() if older == quota.name
    ]
    exempt, unlabelled, outside = [], [], []
    for namespace in namespaces:
        name, labels = name_of(namespace), mapping_at(namespace, ("metadata", "labels"))
        if quota.leaves_out(labels):
            outside.append(name)
        if quota.group_of(labels) is None or name in doubled:
            continue
        if why := exemption_in_cluster("quota", name, settings):
            exempt.append(f"{name} ({why})")
        elif labels.get(QUOTA_LABEL) != ENFORCED:
            unlabelled.append(name)
    path = _SPEC / "namespaceSelector"
    found = (
        (
            [*doubled.values()],
            "it limits nothing in namespaces that an older {kind} counts: {names}",
            "choose them in one of the two",
        ),
        (
            taken,
            "it counts namespaces that a younger {kind} chooses, which limits nothing there: {names}",
            "choose them in one of the two",
        ),
        (
            exempt,
            "it limits nothing in namespaces that are exempt from quotas: {names}",
            "leave them out, with NotIn for kubernetes.io/metadata.name",
        ),
        (
            unlabelled,
            "without this label, pods are admitted while the quota cannot be charged: {names}",
            f"label them with {QUOTA_LABEL}: {ENFORCED}",
        ),
    )
    for names, text, remedy in found:
        if names:
            yield Problem(path, text.format(kind=CLUSTER_QUOTA, names=format_list(names, _MOST_NAMED)), remedy)
    if outside:
        text = f"chosen namespaces without this label have no limit: {format_list(sorted(outside), _MOST_NAMED)}"
        remedy = f"label them with {quota.group_by}, or leave them out of namespaceSelector"
        yield Problem(_SPEC / "groupBy", text, remedy, severity=Severity.AUDIT)


def _limits_without_match(document: Object, limits: Sequence[Limit], view: ClusterView) -> Iterator[Problem]:
    """Globs in the limits of a GPUQuota that match nothing that the cluster shows.

    A limit that counts nothing is a warning; a glob beside others that match is only audited. Unknown names are skipped,
    and so are products and profiles while the cluster has no GPU.
    """
    cluster = view.derive(_ClusterNames.of)
    for index, limit in enumerate(limits):
        path = FieldPath(("spec", "limits", index, "selector"))
        yield from _of_limit(limit, path, lookup(document, path), cluster)


@dataclass(frozen=True, slots=True)
class _ClusterNames:
    """The names of products, profiles and PriorityClasses that the cluster shows."""

    kinds: frozenset[DeviceKind]
    """Empty if nodes or ResourceSlices are unknown, or there is no GPU."""
    names: dict[str, tuple[str, ...]]
    """The names that the globs of each list of a selector can match; a list is missing if they are unknown."""

    @classmethod
    def of(cls, view: ClusterView) -> _ClusterNames:
        kinds, priority_classes = _kinds(view), view.list("PriorityClass")
        names: dict[str, tuple[str, ...]] = {}
        if kinds:
            names["products"] = tuple(sorted({kind.product for kind in kinds}))
            names["profiles"] = tuple(sorted({kind.profile for kind in kinds if kind.profile}))
        if priority_classes is not UNKNOWN:
            # Pods that name none have the empty one.
            names["priorityClasses"] = ("", *sorted(map(name_of, priority_classes)))
        return cls(kinds, names)


def _kinds(view: ClusterView) -> frozenset[DeviceKind]:
    nodes = view.derive(node_kinds)
    if nodes is UNKNOWN or gpu_groups(view) is UNKNOWN:
        return frozenset()
    labels = (value for node in nodes.all for key, value in node.labels if key == PRODUCT_LABEL)
    found = {DeviceKind(Product.parse(label).name) for label in labels}
    return frozenset(kind for kind in found | visible_kinds(view) if kind.product)


def _of_limit(limit: Limit, path: FieldPath, selector: Object | None, cluster: _ClusterNames) -> Iterator[Problem]:
    counts = True
    for field, globs in (selector or {}).items():
        if field not in cluster.names:
            continue
        missed = [index for index, glob in enumerate(globs) if not _matches(field, glob, cluster.names[field])]
        is_idle = len(missed) == len(globs)
        counts = counts and not is_idle
        for index in missed:
            text = f"{shown(globs[index])} {_MISSED[field]}, so {_effect(limit, is_idle=is_idle)}"
            remedy = _remedy(field, globs[index], cluster.names[field])
            yield Problem(path / field / index, text, remedy, severity=Severity.WARN if is_idle else Severity.AUDIT)
    if counts and cluster.kinds and all(limit.selector.match(kind, None) is Match.NO for kind in cluster.kinds):
        text = f"no GPU {_SHOWN} is of these products and has these profiles, so {_effect(limit, is_idle=True)}"
        remedy = f"write profiles that these products are divided into, or make two limits of it; {_LATER}"
        yield Problem(path, text, remedy)


def _matches(field: str, glob: str, names: tuple[str, ...]) -> bool:
    read = (GLOBS[field].read(glob),)
    match field:
        case "products":
            selector = Selector(products=read)
            return any(selector.match(DeviceKind(name), "") is Match.YES for name in names)
        case "profiles":
            selector = Selector(profiles=read)
            return any(selector.match(DeviceKind("", name), "") is Match.YES for name in names)
    selector = Selector(priority_classes=read)
    return any(selector.match(DeviceKind(""), name) is Match.YES for name in names)


def _effect(limit: Limit, *, is_idle: bool) -> str:
    return f"limit {limit.name} counts nothing that runs" if is_idle else f"it adds nothing to limit {limit.name}"


def _remedy(field: str, glob: str, names: tuple[str, ...]) -> str:
    known = [name for name in names if name]
    if not known:
        return f"take it away, or {_LATER}"
    if field == "products":
        proposal = propose_patterns(glob, known)
        if proposal and proposal.others:
            return f"{_LATER}; {proposal.others}"
        meant = list(proposal.names) if proposal else []
    else:
        meant = [guess] if (guess := closest(glob, known)) else []
    said = format_list(list(map(shown, meant))) if meant else f"an existing one ({format_list(known, _MOST_NAMED)})"
    return f"write {said}, or {_LATER}"
