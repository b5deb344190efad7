"""Reasons why nodes do not fit, as data and as sentences, and the audience that may see names."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping  # noqa: TC003 - pydantic reads the annotation
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any

from policies.kubernetes.names import format_count, format_list, shorten
from policies.kubernetes.nodes import Taint, labels_of
from policies.kubernetes.quantities import ONE, bare_resource_amount, exact_amount, resource_amount
from policies.outcome.claims import quota_remedy

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from policies.devices.native_quotas import NativeQuotaRefusal
    from policies.fleet.cluster_digest import Holding
    from policies.kubernetes.objects import Object
    from policies.outcome.question import Question


OTHER_NAMESPACES = "pods of other namespaces"
"""The name of a holder that must not be named."""


@dataclass(frozen=True, slots=True)
class Audience:
    """The reader of an explanation."""

    namespace: str = ""
    """The only namespace whose objects are named; empty for all namespaces."""
    sees_nodes: bool = True
    """True if nodes are named."""

    def may_name(self, namespace: str) -> bool:
        """True if objects of a namespace are named."""
        return self.namespace in ("", namespace)

    def nodes(self, names: Sequence[str], most: int) -> str:
        """The names of nodes, at most so many, or their number."""
        return format_list(names, most) if self.sees_nodes else format_count(len(names), "node")


EVERYTHING = Audience()
"""The reader may see every node and every namespace."""


class Holders:
    """The holders of devices, indexed when the first device is looked up."""

    def __init__(self, holding: Sequence[Holding], audience: Audience) -> None:
        self._holding = holding
        self._audience = audience

    def of(self, device: str) -> tuple[str, ...]:
        """The holders of a device, `driver/pool/device`; empty if it is not in use."""
        holding = self._by_device.get(device, ())
        may_name = self._audience.may_name
        return tuple(dict.fromkeys(claim.words if may_name(claim.namespace) else OTHER_NAMESPACES for claim in holding))

    @cached_property
    def _by_device(self) -> Mapping[str, Sequence[Holding]]:
        found: defaultdict[str, list[Holding]] = defaultdict(list)
        for claim in self._holding:
            for device in (*claim.held.devices, *(shared for shared, _ in claim.held.shares)):
                found[device].append(claim)
        return found


_MOST_VALUES = 3
_OF_PRODUCTS = "nvidia.com/"
"""Labels whose values are shown to all; the values of others may name nodes, teams and places."""


class ReasonKind(StrEnum):
    """The kind of a reason why a node does not fit, in the order of the checks."""

    CORDONED = "cordoned"
    TAINT = "taint"
    NODE_SELECTOR = "node selector"
    RESOURCES = "resources"
    """The node has too little of a resource left (`cpu`, `nvidia.com/gpu`)."""
    CLAIM_ELSEWHERE = "claim elsewhere"
    """A claim has its devices already, which cannot be reached from here."""
    QUOTA = "quota"
    """A ResourceQuota refuses the claim that the scheduler would make for the pod's extended resources."""
    ONE_SHARE = "one share"
    """The device plugin refuses the pod after it is scheduled, because a container requests more than one share."""
    NO_DEVICES = "no devices"
    """The node has no devices."""
    POOL = "pool"
    """A pool is incomplete, invalid, or being replaced."""
    DEVICES = "devices"
    """Too few devices can serve a request; the details say why the others cannot."""
    COMBINATION = "combination"
    """Each request could be served alone, but not all together."""
    CONSTRAINT = "constraint"
    """The devices do not satisfy a constraint together."""
    GAVE_UP = "gave up"
    """Unknown, because there are too many combinations to try."""


@dataclass(frozen=True, slots=True)
class Reason:
    """A reason why a group of nodes does not fit."""

    kind: ReasonKind
    sentence: str
    """For people, with numbers and names; without a full stop."""
    details: tuple[str, ...] = ()
    """More sentences without full stops, one for each kind of device: its holders, or what it lacks. They are about the
    first node of the group; on the other nodes, devices and holders may have other names."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """The reason as data. TAINT: `key`, `value`, `effect`. RESOURCES: `resource`, `asked`, `left`, `allocatable`
    (quantities as text). CLAIM_ELSEWHERE: `claim`. QUOTA: `quota`. ONE_SHARE: `resource`, `asked`. POOL: `pool`, `state`,
    `found`, `expected`. DEVICES: `claim`, `request`, `asked`, `usable`, and `rejected`, a list of `devices`, `reason`, `count`.
    CONSTRAINT: `claim`, `constraint`; for missing pairs also `asked`, `usable`."""


@dataclass(frozen=True, slots=True)
class ShareRequest:
    """The most that one container requests of a shared resource."""

    resource: str
    amount: int

    def __str__(self) -> str:
        """The amount and the resource."""
        return f"{self.amount} {self.resource}"


@dataclass(frozen=True, slots=True)
class ClaimRefusal:
    """The refusal of the claim for a pod's extended resources."""

    quota: str
    """The name of the ResourceQuota."""
    text: str
    """In the words of the API server."""
    remedy: str
    is_permanent: bool

    @classmethod
    def of(cls, refusal: NativeQuotaRefusal) -> ClaimRefusal:
        """The refusal by a ResourceQuota."""
        return cls(refusal.quota, refusal.text, quota_remedy(refusal), refusal.is_permanent)


@dataclass(frozen=True, slots=True)
class Shortage:
    """A resource of which a node has too little; amounts are in billionths."""

    resource: str
    requested: int
    left: int
    allocatable: int

    @property
    def is_permanent(self) -> bool:
        """True if an empty node has too little, too."""
        return self.requested > self.allocatable


@dataclass(frozen=True, slots=True)
class NodeMismatch:
    """A reason why a node does not fit, other than its devices."""

    kind: ReasonKind
    key: Hashable = ""
    """Equal for nodes with one reason: the taint, the selector's label, the resource, or the claim."""
    shortage: Shortage | None = None

    @property
    def is_permanent(self) -> bool:
        """True if the node does not fit even if nothing is in use."""
        if isinstance(self.key, ClaimRefusal):
            return self.key.is_permanent
        return self.shortage is None or self.shortage.is_permanent


def node_reason(
    mismatches: Sequence[NodeMismatch], nodes: Sequence[Object], question: Question, audience: Audience
) -> Reason:
    """The common reason of nodes; mismatches and nodes have the same order."""
    kind, key = mismatches[0].kind, mismatches[0].key
    if kind is ReasonKind.CORDONED:
        return Reason(kind, "the node is cordoned", ("kubectl uncordon lets pods onto it again",))
    if kind is ReasonKind.NODE_SELECTOR:
        return _selector_reason(str(key), nodes, question, audience)
    if kind is ReasonKind.CLAIM_ELSEWHERE:
        claim = next(claim for claim in question.allocated if claim.name == key)
        sentence = f"claim {claim.name} has its devices already, which cannot be reached from here"
        return Reason(kind, sentence, (f"it is {claim.source}",), {"claim": claim.name})
    if isinstance(key, Taint):
        spelled = shorten(str(key))
        sentence = (
            f"{key.condition} (taint {spelled})" if key.condition else f"the pod does not tolerate the taint {spelled}"
        )
        return Reason(kind, sentence, facts={"key": key.key, "value": key.value, "effect": key.effect})
    if isinstance(key, ClaimRefusal):
        sentence = (
            "the pod waits, because a ResourceQuota refuses the claim that the scheduler makes for its extended resources: "
            f"{key.text}"
        )
        return Reason(kind, sentence, (key.remedy,), {"quota": key.quota})
    if isinstance(key, ShareRequest):
        sentence = (
            f"the device plugin refuses the pod once it is scheduled, because a container requests {key}: "
            f"maximum request size for shared resources is 1; found {key.amount}"
        )
        remedy = f"request 1 {key.resource} in each container; more shares may be of the same GPU"
        return Reason(kind, sentence, (remedy,), {"resource": key.resource, "asked": key.amount})
    return _shortage_reason([mismatch.shortage for mismatch in mismatches if mismatch.shortage is not None])


def _selector_reason(key: str, nodes: Sequence[Object], question: Question, audience: Audience) -> Reason:
    if not key:
        return Reason(ReasonKind.NODE_SELECTOR, "the pod's required node affinity does not match")
    wanted = question.pod.spec["nodeSelector"][key] if question.pod else ""
    here = _label_values([labels_of(node).get(key) for node in nodes])
    if not (audience.sees_nodes or key.startswith(_OF_PRODUCTS)):
        here = "another value or missing"
    sentence = f"the pod's nodeSelector requires {shorten(f'{key}={wanted}')}; here {shorten(key)} is {here}"
    facts = {"label": key, "asked": wanted}
    return Reason(ReasonKind.NODE_SELECTOR, sentence, facts=facts)


def _label_values(values: Sequence[str | None]) -> str:
    """The values of a label on nodes: `a or b, or missing`."""
    shown = [shorten(value) or '""' for value in dict.fromkeys(values) if value is not None]
    if not shown:
        return "missing"
    rest = len(shown) - _MOST_VALUES
    text = (
        f"{', '.join(shown[:_MOST_VALUES])} or {rest:,} more"
        if rest > 0
        else " or ".join(filter(None, (", ".join(shown[:-1]), shown[-1])))
    )
    return f"{text}, or missing" if None in values else text


def _shortage_reason(shortages: Sequence[Shortage]) -> Reason:
    """The reason for too little of a resource, with the numbers of the node that has the most left."""
    best = max(shortages, key=lambda shortage: (shortage.left, shortage.allocatable))
    name = best.resource
    requested = resource_amount(name, best.requested, best.allocatable if best.is_permanent else best.left)
    left, allocatable = bare_resource_amount(name, best.left, best.allocatable), resource_amount(name, best.allocatable)
    amounts = {"asked": best.requested, "left": best.left, "allocatable": best.allocatable}
    facts: dict[str, Any] = {"resource": name} | {key: exact_amount(name, amount) for key, amount in amounts.items()}
    at_most = "at most " if len({shortage.left for shortage in shortages}) > 1 else ""
    if name == "pods":
        sentence = f"no room for another pod: {format_count(best.allocatable // ONE, 'pod')} can run on the node"
    elif not best.allocatable:
        sentence = f"{requested} {name} requested, and the node has none"
    elif best.is_permanent:
        most = "at most " if len({shortage.allocatable for shortage in shortages}) > 1 else ""
        all_of_it = max(shortage.allocatable for shortage in shortages)
        sentence = f"{requested} {name} requested, and the node has {most}{resource_amount(name, all_of_it)} in all"
    else:
        sentence = f"{requested} {name} requested, {at_most}{left} of {allocatable} left beside the pods that run there"
    return Reason(ReasonKind.RESOURCES, sentence, facts=facts)
