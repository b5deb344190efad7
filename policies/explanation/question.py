"""Questions: the claims to allocate together, the pod that uses them, and what stands in the way before any node."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policies.decision import Finding
    from policies.kubernetes.objects import Object
    from policies.kubernetes.pods import Pod

__all__ = ["NamedClaim", "Obstacle", "ObstacleKind", "Question"]


class ObstacleKind(StrEnum):
    """What kind of thing stands in the way."""

    MALFORMED = "malformed"
    """The document is not what its kind says."""
    REFUSED = "refused"
    """`review` refuses it; one obstacle for each finding that denies."""
    FACT_UNKNOWN = "fact unknown"
    """Something must be known first; the remedy says which file to bring."""
    MISSING = "missing"
    """A claim, template or DeviceClass that certainly does not exist."""
    CLAIM_FULL = "claim full"
    """A claim is reserved for as many pods as it can be."""
    CLAIM_DELETED = "claim deleted"
    """A claim is being deleted, so no pod gets it any more."""
    TOO_COSTLY = "too costly"
    """A selector that may cost more for one device than the API server accepts."""
    ALLOCATION_FAILS = "allocation fails"
    """Kubernetes' scheduler fails with an error, for every node: a selector that does not compile or that fails on a
    device, a kind of request that the cluster does not know."""


@dataclass(frozen=True, slots=True)
class Obstacle:
    """One thing that stands in the way, whichever node would be taken."""

    kind: ObstacleKind
    sentence: str
    """What is there and why it matters, as one sentence without a full stop."""
    remedy: str = ""
    """What to do, an imperative without a full stop; empty where that is plain."""
    rule: str = ""
    """The rule that refuses, `GA301`; only with REFUSED."""
    cause: str = ""
    """The same in a few words, for a headline; empty where the kind says enough."""

    def as_json(self) -> dict[str, Any]:
        """As plain data: `kind`, `sentence`, `remedy`, `rule`; the last two may be empty."""
        return {"kind": str(self.kind), "sentence": self.sentence, "remedy": self.remedy, "rule": self.rule}


@dataclass(frozen=True, slots=True)
class NamedClaim:
    """A ResourceClaim, and what it is called here."""

    name: str
    """By which the pod calls it (`spec.resourceClaims[].name`); of a claim or template alone, its own name."""
    claim: Object
    """The ResourceClaim in the shape of resource.k8s.io/v1, whatever version it was written in."""
    source: str
    """Where it comes from, for people: `ResourceClaimTemplate gpu-0a1b`, `ResourceClaim team-a/shared`."""
    shared: bool = False
    """Whether all pods of a workload would use this one claim (`resourceClaimName`, or a PodGroup's), not one each."""
    group: str = ""
    """The PodGroup that it is reserved for, once for all its pods; empty if it is reserved for each pod."""


@dataclass(frozen=True, slots=True)
class Question:
    """One pod, claim or template that is to find its place."""

    label: str
    """For people: `pod team-a/train`, `Deployment team-a/web`, `ResourceClaim team-a/gpu`; of a workload with several
    templates, with the place of this one: `RayCluster team-a/ray, spec.headGroupSpec.template`."""
    namespace: str
    pod: Pod | None = None
    """As it is after review would have converted and placed it; None for a claim or template alone."""
    written: Object | None = None
    """The pod as it was before review; None for what is stored, and for a claim or template alone."""
    claims: tuple[NamedClaim, ...] = ()
    """Those that are to be allocated together."""
    allocated: tuple[NamedClaim, ...] = ()
    """Those that have their devices already, and only decide which nodes are left."""
    resources: Mapping[str, int] = field(default_factory=dict)
    """What the pod asks of a node beside claims, in billionths by resource name (`cpu`, `nvidia.com/gpu`), as Kubernetes
    counts init containers; with one `pods`."""
    tolerations_added: tuple[str, ...] = ()
    """The keys of the taints that placement lets the pod tolerate."""
    conditions_added: bool = False
    """Whether placement adds to the pod's node selector or affinity, for its wishes or by the settings."""
    converted_to: str = ""
    """The ResourceClaimTemplate that conversion made of the pod's `nvidia.com/gpu`; empty where nothing was converted."""
    node_name: str = ""
    """The node that the pod is bound to already; the scheduler has nothing to decide any more."""
    obstacles: tuple[Obstacle, ...] = ()
    """What stands in the way before any node is looked at."""
    warnings: tuple[Finding, ...] = ()
    """What review warns about where the pod's GPUs come from."""
