"""PriorityClasses: a value and a preemption policy that the API server accepts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.checks import Checks, Problem, problem
from policies.decision import Severity
from policies.kubernetes.objects import name_of
from policies.kubernetes.paths import FieldPath
from policies.kubernetes.printable import shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.decision import Finding
    from policies.request import Request

__all__ = ["validate_priority_class"]

_HIGHEST = 1_000_000_000
_POLICIES = ("PreemptLowerPriority", "Never")
_CLASSES: Checks[Request] = Checks("PriorityClass", cluster_scoped=True)


def validate_priority_class(request: Request) -> Iterator[Finding]:
    """Findings on a PriorityClass that is created or updated."""
    if request.operation != "DELETE" and isinstance(request.object, dict):
        yield from _CLASSES.run(request)


@_CLASSES.rule(
    "GA420",
    "A PriorityClass must have a value and a preemption policy that Kubernetes accepts",
    default=Severity.DENY,
    remedy="correct the field",
    source="k8s.io/kubernetes pkg/apis/scheduling/validation/validation.go ValidatePriorityClass",
    as_invalid=True,
)
def accepted_fields(request: Request) -> Iterator[Problem]:
    """The API server refuses other values, and pods that name the class are then refused too.

    Classes whose names begin with system- belong to Kubernetes and are not judged.
    """
    document = request.object or {}
    if name_of(document).startswith("system-"):
        return
    value, policy = document.get("value", 0), document.get("preemptionPolicy")
    if isinstance(value, bool) or not isinstance(value, int):
        yield problem(FieldPath(["value"]), f"Invalid value: {shown(value)}: must be an integer")
    elif value > _HIGHEST:
        yield problem(FieldPath(["value"]), f"maximum allowed value of a user defined priority is {_HIGHEST}")
    if policy is not None and policy not in _POLICIES:
        supported = ", ".join(f'"{each}"' for each in _POLICIES)
        text = f"Unsupported value: {shown(policy)}: supported values: {supported}"
        yield problem(FieldPath(["preemptionPolicy"]), text)
