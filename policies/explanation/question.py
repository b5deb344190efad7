"""What is asked: claims that have to be allocated together, and the pod that wants them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policies.decision import Finding
    from policies.explanation.obstacles import Obstacle
    from policies.kubernetes.objects import Object
    from policies.kubernetes.pods import Pod

__all__ = ["NamedClaim", "Question"]


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
