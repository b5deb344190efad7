"""Conditions: what the status of an object says about it, as `status.conditions` has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.kubernetes.paths import lookup

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from policies.kubernetes.objects import Object

__all__ = ["with_conditions"]


def with_conditions(before: Sequence[Object], conditions: Iterable[Object], generation: int, time: str) -> list[Object]:
    """The conditions of a status with some as they are to be; each has the time of its last change between True and False.

    Args:
        before: Those that are stored.
        conditions: As they are to be.
        generation: Of the spec that they are about.
        time: Now, in RFC 3339.
    """
    after = list(before)
    for condition in conditions:
        place = next(
            (index for index, each in enumerate(after) if lookup(each, ("type",)) == condition["type"]), len(after)
        )
        known = after[place] if place < len(after) else {}
        since = known.get("lastTransitionTime") if known.get("status") == condition["status"] else None
        after[place : place + 1] = [
            {**condition, "observedGeneration": generation, "lastTransitionTime": since or time},
        ]
    return after
