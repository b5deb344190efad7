"""The strategy `leave`: a DeviceClass stands for the resource, and the scheduler makes the claim by itself.

Source: KEP-5004 (`spec.extendedResourceName` of DeviceClasses).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.conversion.conversion import Conversion
from policies.conversion.opt_in import NAMESPACE
from policies.conversion.rules import INCAPABLE, UNMAPPED
from policies.conversion.versions import kubelet_problem
from policies.fleet.known_classes import known_classes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.conversion.conversion import Question
    from policies.decision import Finding

__all__ = ["leave"]


def leave(question: Question) -> Conversion:
    """Leave a pod as it is, where the cluster hands out by DRA what it asks for."""
    return Conversion(obstacles=tuple(_unable(question)))


def _unable(question: Question) -> Iterator[Finding]:
    classes = known_classes(question.view)
    for resource, path in question.places.items():
        if not classes.are_listed:
            text = "is left to a DeviceClass that stands for it, and the DeviceClasses are not known"
            yield INCAPABLE.finding(path, text)
        elif not classes.standing_for(resource):
            yield UNMAPPED.finding(path, f"no DeviceClass has extendedResourceName: {resource}")
    # Nodes with a device plugin need nothing of DRA, and their kubelets may be older.
    problem = kubelet_problem(question.view, of_dra_only=True)
    if problem is not None:
        text = f"{problem}, and the strategy leave needs Kubernetes 1.36 on every node whose GPUs are handed out by DRA"
        yield INCAPABLE.finding(NAMESPACE, text)
