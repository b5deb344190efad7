"""Questions: claims to allocate together, the pod that uses them, and obstacles."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policies.decision import Finding
    from policies.dra.resource_claims import Claim
    from policies.kubernetes.objects import Object
    from policies.kubernetes.pods import Pod

__all__ = ["NamedClaim", "Obstacle", "ObstacleKind", "Question"]


class ObstacleKind(StrEnum):
    """The kind of an obstacle."""

    MALFORMED = "malformed"
    """The document does not have the shape of its kind."""
    REFUSED = "refused"
    """`review` refuses the object; one obstacle for each finding that denies."""
    FACT_UNKNOWN = "fact unknown"
    """A fact is missing; the remedy says which file to add."""
    MISSING = "missing"
    """A claim, template or DeviceClass does not exist."""
    CLAIM_FULL = "claim full"
    """A claim is reserved for the maximum of pods."""
    CLAIM_DELETED = "claim deleted"
    """A claim is being deleted, so no pod can get it."""
    TOO_COSTLY = "too costly"
    """A selector may cost more for one device than the API server accepts."""
    ALLOCATION_FAILS = "allocation fails"
    """Kubernetes' scheduler fails with an error for all nodes: a selector does not compile or fails on a device, or the
    cluster does not know the kind of a request."""


@dataclass(frozen=True, slots=True)
class Obstacle:
    """A reason why no node can fit."""

    kind: ObstacleKind
    sentence: str
    """What is wrong and why it matters, without a full stop."""
    remedy: str = ""
    """What to do, an imperative without a full stop; empty if it is obvious."""
    rule: str = ""
    """The rule that refuses, `GA301`; only with REFUSED."""
    cause: str = field(default="", metadata={"exclude": True})
    """The cause in a few words, for a headline; empty if the kind says enough. pydantic leaves it out of JSON."""


@dataclass(frozen=True, slots=True)
class NamedClaim:
    """A ResourceClaim with its name in the question."""

    name: str
    """The name in the pod (`spec.resourceClaims[].name`); without a pod, the name of the claim or template."""
    claim: Claim
    source: str
    """Its origin, for people: `ResourceClaimTemplate gpu-0a1b`, `ResourceClaim team-a/shared`."""
    shared: bool = False
    """True if all pods of a workload use this claim (`resourceClaimName`, or that of a PodGroup)."""
    group: str = ""
    """The PodGroup that it is reserved for; empty if it is reserved for each pod."""


@dataclass(frozen=True, slots=True)
class Question:
    """A pod, claim or template to explain."""

    label: str
    """For people: `pod team-a/train`, `Deployment team-a/web`, `ResourceClaim team-a/gpu`; for a workload with several
    pod templates, with the path of the template: `RayCluster team-a/ray, spec.headGroupSpec.template`."""
    namespace: str
    pod: Pod | None = None
    """The pod after review has converted and placed it; None for a claim or template."""
    written: Object | None = None
    """The pod before review; None if it is stored already, and for a claim or template."""
    claims: tuple[NamedClaim, ...] = ()
    """The claims to allocate together."""
    allocated: tuple[NamedClaim, ...] = ()
    """The claims that have their devices already; they only restrict the nodes."""
    resources: Mapping[str, int] = field(default_factory=dict)
    """The resources that the pod requests of a node, in billionths by name (`cpu`, `nvidia.com/gpu`), with init containers
    counted as Kubernetes does, and with one `pods`."""
    tolerations_added: tuple[str, ...] = ()
    """The keys of the tolerations that placement adds."""
    conditions_added: bool = False
    """True if placement adds to the pod's node selector or affinity."""
    converted_to: str = ""
    """The ResourceClaimTemplate of the converted pod; empty if the pod is not converted."""
    node_name: str = ""
    """The node that the pod is bound to; empty if it is not bound."""
    obstacles: tuple[Obstacle, ...] = ()
    """Why no node can fit."""
    warnings: tuple[Finding, ...] = ()
    """Warnings of review about conversion and placement."""
