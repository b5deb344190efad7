"""The oracle: the devices of pods and claims, counted independently of the service."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from tests.storm.harness.orders import SHARES, SLICES, UNLIMITED_SHARE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from tests.storm.harness.history import Event
    from tests.storm.harness.orders import Document

__all__ = [
    "EXACT",
    "LIMITS",
    "Broken",
    "Truth",
    "by_tenant",
    "compared",
    "condition",
    "of_pod",
    "quota",
    "replay",
    "tenants_quota",
]

LIMITS = ("gpus", "devices", "slices")
EXACT = ("devices", "slices")
"""Those of which anybody can say how much it is; of a slice whose GPU is not known, the part of a GPU is a bound."""
_SHARE = Fraction(1, 7)
"""What of a GPU a slice is at least."""
_GPUS = ("nvidia.com/gpu", "deviceclass.resource.kubernetes.io/gpu.nvidia.com")
_EXTENDED = "resource.kubernetes.io/extended-resource-claim"

Held = Counter[str]
"""`whole`, `slices`, and shares by the product of their GPU."""
_PARTS = {
    product: Fraction(UNLIMITED_SHARE) if shares == "unlimited" else Fraction(1, int(shares))
    for product, shares in SHARES.items()
}
"""The part of a GPU that a share counts for."""


def quota(namespace: str, gpus: int, devices: int, slices: int) -> Document:
    """A GPUQuota with the limits that are counted here."""
    limits: list[dict[str, Any]] = [
        {"name": "gpus", "gpus": gpus},
        {"name": "devices", "devices": devices},
        {"name": "slices", "selector": {"profiles": ["*"]}, "devices": slices},
    ]
    return {
        "apiVersion": "gpu-admission.io/v1alpha1",
        "kind": "GPUQuota",
        "metadata": {"name": "gpu", "namespace": namespace},
        "spec": {"limits": limits},
    }


def tenants_quota(name: str, key: str, gpus: int, devices: int, slices: int) -> Document:
    """A ClusterGPUQuota with the same limits for each value of a label of namespaces."""
    limits = quota("", gpus, devices, slices)["spec"]["limits"]
    return {
        "apiVersion": "gpu-admission.io/v1alpha1",
        "kind": "ClusterGPUQuota",
        "metadata": {"name": name},
        "spec": {"namespaceSelector": {}, "groupBy": key, "limits": limits},
    }


def by_tenant(events: Iterable[Event], groups: Mapping[str, str]) -> Iterator[Event]:
    """The history as if each tenant were one namespace, whose GPUQuota is the tenant's GPUQuotaGroup.

    Args:
        events: In the order in which they were stored.
        groups: By namespace, the name of its GPUQuotaGroup.
    """
    for event in events:
        metadata = event.object["metadata"]
        if event.kind == "GPUQuotaGroup":
            home, kind = metadata["name"], "GPUQuota"
        elif event.kind in ("Pod", "ResourceClaim") and metadata["namespace"] in groups:
            home, kind = groups[metadata["namespace"]], event.kind
        else:
            continue
        yield replace(event, kind=kind, object={**event.object, "metadata": {**metadata, "namespace": home}})


def condition(document: Document, kind: str) -> dict[str, str]:
    """A condition of a GPUQuota; empty if it has none of this type."""
    conditions = (document.get("status") or {}).get("conditions") or ()
    return next((each for each in conditions if each["type"] == kind), {})


class Truth:
    """What is stored at one moment."""

    def __init__(self) -> None:
        self._pods: defaultdict[str, dict[str, Document]] = defaultdict(dict)
        self._claims: defaultdict[str, dict[str, Document]] = defaultdict(dict)

    @classmethod
    def of(cls, events: Iterable[Event]) -> Truth:
        """What is there after some changes."""
        truth = cls()
        for event in events:
            truth.change(event)
        return truth

    def change(self, event: Event) -> None:
        """Something was stored, or is gone."""
        if event.kind not in ("Pod", "ResourceClaim"):
            return
        of_all = self._pods if event.kind == "Pod" else self._claims
        stored = of_all[event.object["metadata"]["namespace"]]
        if event.is_gone:
            stored.pop(event.uid, None)
        else:
            stored[event.uid] = event.object

    def amounts(self, namespace: str) -> dict[str, Fraction]:
        """By limit."""
        held: Held = Counter()
        for pod in self._pods[namespace].values():
            held += of_pod(pod)
        for claim in self._claims[namespace].values():
            held += self._of_claim(claim)
        gpus = held["whole"] + held["slices"] * _SHARE + sum(held[product] * part for product, part in _PARTS.items())
        return {"gpus": gpus, "devices": Fraction(held.total()), "slices": Fraction(held["slices"])}

    def is_there(self, namespace: str, uid: str) -> bool:
        """Whether a pod or a claim is there."""
        return uid in self._pods[namespace] or uid in self._claims[namespace]

    def is_awaited(self, namespace: str, uid: str) -> bool:
        """Whether it is a pod that still waits for a claim from a template."""
        pod = self._pods[namespace].get(uid)
        if pod is None:
            return False
        wanted = sum("resourceClaimTemplateName" in claim for claim in pod["spec"].get("resourceClaims") or ())
        made = [claim for claim in self._claims[namespace].values() if _owner(claim) == uid and _is_generated(claim)]
        return len(made) < wanted

    def _of_claim(self, claim: Document) -> Held:
        """What it asks for, but not once more what its pod asks for: the scheduler makes claims for pods' resources."""
        held = Counter({_form(claim): _count(claim)})
        pod = self._pods[claim["metadata"]["namespace"]].get(_owner(claim))
        if pod is None or _EXTENDED not in (claim["metadata"].get("annotations") or {}):
            return held
        named = (pod.get("status") or {}).get("extendedResourceClaimStatus") or {}
        if named.get("resourceClaimName") == claim["metadata"]["name"] or _is_by_scheduler(claim):
            return held - of_pod(pod)
        return held


def _owner(claim: Document) -> str:
    owners = claim["metadata"].get("ownerReferences") or ()
    return next((owner["uid"] for owner in owners if owner.get("controller")), "")


def _is_generated(claim: Document) -> bool:
    return "resource.kubernetes.io/pod-claim-name" in (claim["metadata"].get("annotations") or {})


def _is_by_scheduler(claim: Document) -> bool:
    """Whether the scheduler made it, which tells the pod a moment later; anybody can write the annotation."""
    writes = claim["metadata"].get("managedFields") or ()
    return any(write["manager"] == "kube-scheduler" for write in writes)


def _form(claim: Document) -> str:
    """The product if a claim is for shares of it, else `whole`."""
    text = str(claim["spec"])
    return next((product for product in _PARTS if product in text), "whole")


def _count(claim: Document) -> int:
    return sum(request["exactly"].get("count", 1) for request in claim["spec"]["devices"]["requests"])


def of_pod(pod: Document) -> Held:
    """What the containers of a pod hold, besides its claims."""
    if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return Counter()
    return Counter(whole=sum(_most(pod, name) for name in _GPUS), slices=_most(pod, SLICES))


def _most(pod: Document, resource: str) -> int:
    """The most of a resource that its containers hold at any moment."""

    def asked(container: Document) -> int:
        return int(((container.get("resources") or {}).get("limits") or {}).get(resource, 0))

    beside, most = 0, 0
    for container in pod["spec"].get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            beside += asked(container)
            most = max(most, beside)
        else:
            most = max(most, beside + asked(container))
    return max(most, beside + sum(map(asked, pod["spec"]["containers"])))


@dataclass(frozen=True, slots=True)
class Broken:
    """A moment at which something was not as it must be."""

    version: int
    namespace: str
    limit: str
    truth: Fraction
    hard: Fraction
    ledger: Fraction | None

    def __str__(self) -> str:
        place = f"at resourceVersion {self.version}, {self.limit} of {self.namespace}"
        return f"{place}: {self.truth} held, {self.hard} allowed, {self.ledger} on the ledger"


def replay(events: Iterable[Event], gaps: Sequence[tuple[int, int]] = ()) -> tuple[list[Broken], list[Broken]]:
    """Go through a history.

    Args:
        events: In the order in which they were stored.
        gaps: After which version and before which nothing is compared, since not everything is known.

    Returns:
        The moments at which more was held than allowed; and those at which more was held than the ledger knew of, from
        which the former follow sooner or later.
    """
    truth = Truth()
    quotas: dict[str, Document] = {}
    over: list[Broken] = []
    under: list[Broken] = []
    for event in events:
        namespace = event.object["metadata"]["namespace"]
        if event.kind == "GPUQuota":
            quotas[namespace] = event.object
        truth.change(event)
        if namespace in quotas and not any(since < event.version < until for since, until in gaps):
            held = truth.amounts(namespace)
            for found in compared(event.version, quotas[namespace], held):
                if found.truth > found.hard:
                    over.append(found)
                if found.ledger is not None and found.truth > found.ledger:
                    under.append(found)
    return over, under


def compared(version: int, document: Document, held: dict[str, Fraction]) -> Iterator[Broken]:
    """What is held, allowed and known to the ledger of a GPUQuota, for each limit."""
    written = {limit["name"]: limit for limit in (document.get("status") or {}).get("limits") or ()}
    for limit in document["spec"]["limits"]:
        name = limit["name"]
        hard = Fraction(str(limit.get("gpus", limit.get("devices"))))
        known = written.get(name, {})
        ledger = Fraction(known["used"]) + Fraction(known["reserved"]) if "used" in known else None
        yield Broken(version, document["metadata"]["namespace"], name, held[name], hard, ledger)
