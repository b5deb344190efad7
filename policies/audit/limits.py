"""Limits of GPUQuotas by which nothing in the cluster counts: a typo in a glob makes a limit that never holds.

Nothing refuses such a glob, since the product, the profile or the PriorityClass may come later.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from policies.audit.findings import found_in
from policies.decision import Finding, Severity
from policies.dra.words import listed
from policies.kubernetes.misspellings import closest
from policies.kubernetes.objects import name_of
from policies.kubernetes.paths import FieldPath, lookup
from policies.kubernetes.printable import shown
from policies.nvidia.products import PRODUCT, Product
from policies.quota.charges import DeviceKind
from policies.quota.devices.kinds import node_kinds
from policies.quota.devices.published import devices
from policies.quota.limits.globs import GLOBS
from policies.quota.limits.quota import QuotaError, parse_quota
from policies.quota.limits.selectors import Match, Selector
from policies.view import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.audit.report import AuditFinding
    from policies.kubernetes.objects import Object
    from policies.quota.limits.quota import Limit
    from policies.view import ClusterView

__all__ = ["LIMIT_WITHOUT_MATCH", "limit_findings"]

LIMIT_WITHOUT_MATCH = "limit-without-match"
"""What is said of the selectors in a GPUQuota that match nothing in the cluster."""

_SHOWN = "that nodes or ResourceSlices show"
_MISSED = {
    "products": f"is the product of no GPU {_SHOWN}",
    "profiles": f"is the profile of no MIG device {_SHOWN}",
    "priorityClasses": "matches no PriorityClass that there is",
}
_LATER = "leave it if that comes later"
_MOST_NAMED = 3


def limit_findings(namespace: str, view: ClusterView) -> Iterator[AuditFinding]:
    """Selectors of GPUQuotas that match nothing that the cluster shows; of one namespace where one is given.

    A limit that nothing at all counts by is warned about; a glob beside others that do match something is only noted. Of
    what nobody knows nothing is said, and neither of GPUs where the cluster has none now.
    """
    quotas = view.list("GPUQuota", namespace)
    if quotas is UNKNOWN or not quotas:
        return
    there = _There.of(view)
    for document in quotas:
        try:
            limits = parse_quota(document).limits
        except QuotaError:
            # That is a finding of its own.
            continue
        for index, limit in enumerate(limits):
            path = FieldPath(("spec", "limits", index, "selector"))
            for finding in _of_limit(limit, path, lookup(document, path), there):
                yield found_in(document, finding)


@dataclass(frozen=True, slots=True)
class _There:
    """What the cluster shows."""

    kinds: frozenset[DeviceKind]
    """None where nobody knows, or there is no GPU."""
    names: dict[str, tuple[str, ...]]
    """By the lists of a selector what their globs can match; a list of which nobody knows that is not there."""

    @classmethod
    def of(cls, view: ClusterView) -> _There:
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
    nodes, published = view.derive(node_kinds), view.derive(devices)
    if nodes is UNKNOWN or published is UNKNOWN:
        return frozenset()
    labels = (value for node in nodes.all for key, value in node.labels if key == PRODUCT)
    found = {DeviceKind(Product.parse(label).name) for label in labels}
    found |= {offer.device for node in nodes.all for _, offer in node.offers}
    found |= {each.device for parts in published.pools.values() for part in parts for each in part.values()}
    return frozenset(kind for kind in found if kind.product)


def _of_limit(limit: Limit, path: FieldPath, selector: Object | None, there: _There) -> Iterator[Finding]:
    counts = True
    for field, globs in (selector or {}).items():
        if field not in there.names:
            continue
        missed = [index for index, glob in enumerate(globs) if not _matches(field, glob, there.names[field])]
        is_idle = len(missed) == len(globs)
        counts = counts and not is_idle
        for index in missed:
            text = f"{shown(globs[index])} {_MISSED[field]}, so {_effect(limit, is_idle=is_idle)}"
            yield _finding(path / field / index, text, _remedy(globs[index], there.names[field]), is_idle=is_idle)
    if counts and there.kinds and all(limit.selector.match(kind, None) is Match.NO for kind in there.kinds):
        text = f"no GPU {_SHOWN} is of these products and has these profiles, so {_effect(limit, is_idle=True)}"
        remedy = f"write profiles that these products are divided into, or make two limits of it; {_LATER}"
        yield _finding(path, text, remedy, is_idle=True)


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


def _remedy(glob: str, names: tuple[str, ...]) -> str:
    known = [name for name in names if name]
    if not known:
        return f"take it away, or {_LATER}"
    meant = closest(glob, known)
    said = shown(meant) if meant else f"one that there is ({listed(known, _MOST_NAMED)})"
    return f"write {said}, or {_LATER}"


def _finding(path: FieldPath, text: str, remedy: str, *, is_idle: bool) -> Finding:
    return Finding(LIMIT_WITHOUT_MATCH, Severity.WARN if is_idle else Severity.AUDIT, path, text, remedy)
