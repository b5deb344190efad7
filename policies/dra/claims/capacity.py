"""Capacity: how much of a device a request takes for itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.checks import Problem, problem
from policies.decision import Severity
from policies.dra.claims.checks import CLAIMS
from policies.dra.claims.field_errors import invalid
from policies.dra.claims.name_errors import qualified_name_error
from policies.kubernetes.quantities import QuantityError, parse_quantity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.dra.claims.subject import Subject


@CLAIMS.rule(
    "GA210",
    "Capacity must be requested by names that devices can have",
    default=Severity.DENY,
    remedy="write the name as the ResourceSlices have it",
    source="k8s.io/api/resource/v1/types.go CapacityRequirements and QualifiedName",
)
def capacity_names(subject: Subject) -> Iterator[Problem]:
    """The API server takes any name here, but no ResourceSlice can have a capacity of such a name.

    A name is an identifier, memory, or one with its domain before it. A claim that asks for what no device can have is
    never allocated, and one that asks for less than nothing means something else.
    """
    for subrequest in subject.subrequests:
        path = subrequest.path / "capacity" / "requests"
        for name, amount in (subrequest.capacity or {}).items():
            if error := qualified_name_error(name):
                yield problem(path / name, f"{invalid(name, error)}, so no device has it")
            elif _is_negative(amount):
                yield problem(path / name, invalid(amount, "must be greater than or equal to 0"), "write an amount")


def _is_negative(amount: object) -> bool:
    try:
        return parse_quantity(amount) < 0
    except QuantityError:
        return False
