"""Status: what Kubernetes writes, and drops when somebody else does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.checks import Problem, problem
from policies.decision import Severity
from policies.dra.claims.checks import CLAIMS
from policies.kubernetes.paths import FieldPath

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.dra.claims.subject import Subject


@CLAIMS.rule(
    "GA218",
    "A new claim must not have a status",
    default=Severity.WARN,
    remedy="remove it",
    source="k8s.io/kubernetes pkg/registry/resource/resourceclaim/strategy.go PrepareForCreate",
)
def no_status(subject: Subject) -> Iterator[Problem]:
    """The scheduler writes which devices a claim has got; a status in a manifest is silently dropped.

    A claim that was exported from a cluster gets other devices when it is created again. Certain devices are chosen by a
    selector, on their uuid for example.
    """
    if subject.old is None and subject.object.get("status") and subject.kind in ("ResourceClaim", "ComputeDomain"):
        yield problem(FieldPath(["status"]), "is dropped when the object is created; Kubernetes writes it later")
