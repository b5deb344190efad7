"""Selectors that may cost more than the API server accepts: said, rather than asked of every device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.dra.allocation.classes import read_classes
from policies.dra.allocation.requests import read_claim
from policies.dra.allocation.selectors import cel_features
from policies.dra.cel import MOST_COST, UNBOUNDED_COST, CelCompileError, compile_selector
from policies.dra.words import short
from policies.explanation.obstacles import Obstacle, ObstacleKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.explanation.solver import Ask

__all__ = ["costly_selectors"]

_REMEDY = "avoid loops in loops: all, exists, filter and map over what may be long"


def costly_selectors(ask: Ask) -> tuple[Obstacle, ...]:
    """The selectors whose estimated cost for one device exceeds Kubernetes' limit.

    The API server refuses them, so they are in manifests only, or were stored by a version that estimated otherwise.

    Raises:
        AllocationError: a field of a claim or a class is of the wrong type.
    """
    features = cel_features(ask.features)
    found: list[Obstacle] = []
    for owner, text in _selectors(ask):
        ask.keep_on()
        try:
            cost = compile_selector(text, features).max_cost
        except CelCompileError:
            continue  # the scheduler fails with it, and that is said where it does
        if cost > MOST_COST:
            estimate = "has no bound" if cost >= UNBOUNDED_COST else f"is {cost:,}"
            sentence = (
                f"the API server refuses a selector of {owner} as too costly: the estimate for one device {estimate}, "
                f"and the limit is {MOST_COST:,}: {short(text)}"
            )
            found.append(Obstacle(ObstacleKind.TOO_COSTLY, sentence, _REMEDY))
    return tuple(found)


def _selectors(ask: Ask) -> Iterator[tuple[str, str]]:
    """Whose selector it is, and the selector."""
    for device_class in read_classes(ask.classes).values():
        for text in device_class.selectors:
            if text is not None:
                yield f"DeviceClass {device_class.name}", text
    for named in ask.claims:
        for request in read_claim(named.claim).requests:
            for alternative in request.alternatives:
                for text in alternative.selectors:
                    if text is not None:
                        yield f"request {alternative.full_name} of {named.source}", text
