"""Pods with the same explanation: those of one template are explained once."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from policies.dra.resource_claims import Claim
from policies.kubernetes.paths import lookup, mappings_at
from policies.kubernetes.pods import Pod

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.kubernetes.objects import Object
    from policies.outcome import NamedClaim, Question

__all__ = ["alike_key", "for_all_alike"]

_POD_FIELDS = (
    "nodeSelector",
    "overhead",
    "preemptionPolicy",
    "priority",
    "priorityClassName",
    "resourceClaims",
    "resources",
    "schedulerName",
    "schedulingGroup",
    "tolerations",
)
"""The fields of a pod's spec that explanations read, beside node affinity and the resources of containers."""
_CONTAINER_FIELDS = ("resources", "restartPolicy")


def alike_key(question: Question) -> str:
    """Equal for questions about stored pods that have the same explanation for readers of their namespace.

    Names, labels, environment and volumes differ among the pods of one template, and no explanation of a stored pod depends
    on them. A claim that was generated for one pod counts by its spec.
    """
    parts = {
        "namespace": question.namespace,
        "obstacles": [*map(asdict, question.obstacles)],
        "pod": _spec(question.pod.spec) if question.pod is not None else None,
        "claims": [*map(_claim, question.claims)],
        "allocated": [*map(_claim, question.allocated)],
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()


def for_all_alike(question: Question) -> Question:
    """The question without the identity of the pod, so that one explanation is true for all alike pods.

    Explanations show names that the pod contains; its metadata and environment can contain further ones.
    """
    if question.pod is None:
        return question
    document = {**question.pod.document, "metadata": {"namespace": question.namespace}}
    pod = Pod({**document, "spec": _spec(question.pod.spec)}, question.pod.containers, question.pod.init_containers)
    claims = tuple(_for_all(claim, question.namespace) for claim in question.claims)
    return replace(question, label="the pod", pod=pod, claims=claims)


def _spec(spec: Object) -> Object:
    """The part of a pod's spec that explanations read."""
    return {
        **{name: spec[name] for name in _POD_FIELDS if name in spec},
        "affinity": {"nodeAffinity": lookup(spec, ("affinity", "nodeAffinity"))},
        "initContainers": [*_containers(spec, "initContainers")],
        "containers": [*_containers(spec, "containers")],
    }


def _containers(spec: Object, listed: str) -> Iterator[Object]:
    for container in mappings_at(spec, (listed,)):
        yield {name: container[name] for name in _CONTAINER_FIELDS if name in container}


def _claim(claim: NamedClaim) -> list[Any]:
    document = claim.claim.document
    own = [claim.source, lookup(document, ("status", "allocation")), lookup(document, ("status", "reservedFor"))]
    return [claim.name, claim.shared, claim.group, document.get("spec"), *(own if _is_named(claim) else ())]


def _is_named(claim: NamedClaim) -> bool:
    """True if the explanation may name the claim: pods share it, or it decides where the pod can run."""
    return claim.shared or claim.claim.allocation is not None


def _for_all(claim: NamedClaim, namespace: str) -> NamedClaim:
    if _is_named(claim):
        return claim
    metadata = {"name": claim.name, "namespace": namespace}
    document = Claim({**claim.claim.document, "metadata": metadata})
    return replace(claim, claim=document, source=f"claim {claim.name} of the pod")
