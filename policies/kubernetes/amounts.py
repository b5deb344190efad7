"""Amounts of a node's resources: what a pod requests, what the pods of a node take, and their text."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from policies.caches import LONGEST_KEY
from policies.kubernetes.objects import has_ended
from policies.kubernetes.paths import items_at, lookup
from policies.kubernetes.quantities import QuantityError, parse_quantity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policies.kubernetes.objects import Object

__all__ = ["ONE", "Amounts", "amount_text", "billionths", "pod_amounts", "taken_by"]

ONE = 10**9
"""One whole, in the billionths in which amounts are kept."""

Amounts = tuple[tuple[str, int], ...]
"""Resources in the order of their names, each with billionths."""

_GIBI = 1024**3
_BYTES = ("memory", "ephemeral-storage", "hugepages-")


def billionths(value: Any) -> int:
    """A quantity of an object in billionths; 0 if it is not a quantity, as in a file on disk."""
    if type(value) is str and len(value) <= LONGEST_KEY:
        return _cached_billionths(value)
    return _billionths(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else 0


def pod_amounts(spec: Any) -> dict[str, int]:
    """The amounts that a pod with this spec takes of a node, in billionths by resource, and one `pods`.

    Containers and sidecars add up. Every other init container runs alone but for the sidecars started before it, so it
    counts only if it requests more than all the rest. Requests of the pod as a whole take precedence.

    Source: PodRequests in k8s.io/component-helpers/resource/helpers.go.
    """
    sidecars: Mapping[str, int] = {}
    peak: Mapping[str, int] = {}
    for container in items_at(spec, ("initContainers",)):
        amounts = _requests(lookup(container, ("resources",)))
        if lookup(container, ("restartPolicy",)) == "Always":
            sidecars = _sum(sidecars, amounts)
            peak = _most(peak, sidecars)
        else:
            peak = _most(peak, _sum(sidecars, amounts))
    running = sidecars
    for container in items_at(spec, ("containers",)):
        running = _sum(running, _requests(lookup(container, ("resources",))))
    total = {**_most(peak, running), **_requests(lookup(spec, ("resources",)))}
    return {**_sum(total, _read(lookup(spec, ("overhead",)))), "pods": ONE}


def taken_by(pod: Object) -> tuple[str, Amounts] | None:
    """A pod's node, and the amounts that it takes of it; None if it has no node yet or has ended."""
    node = lookup(pod, ("spec", "nodeName"))
    if not isinstance(node, str) or not node or has_ended(pod):
        return None
    amounts = pod_amounts(pod.get("spec")).items()
    kept = tuple(sorted([item for item in amounts if item[1]]))
    return node, _shared_amounts(kept) if len(kept) <= _FEW else kept


_FEW = 16
"""The most resources of a pod whose amounts are shared; pods have two to five."""


@lru_cache(maxsize=4096)
def _shared_amounts(amounts: Amounts) -> Amounts:
    """The same object for what is equal: many pods have the same template."""
    return amounts


def amount_text(resource: str, amount: int) -> str:
    """The text of an amount: bytes in Gi, everything else as a plain number."""
    value = Fraction(amount, ONE)
    if resource.startswith(_BYTES):
        return f"{_decimal(value / _GIBI, 1)}Gi"
    return _decimal(value, 3)


def _decimal(value: Fraction, places: int) -> str:
    text = f"{float(value):.{places}f}".rstrip("0").rstrip(".")
    return text if text not in ("", "-0") else "0"


def _requests(resources: Any) -> Mapping[str, int]:
    """Requests, and limits where there is no request, as the API server fills them in."""
    if not isinstance(resources, dict):
        return {}
    requests, limits = _read(resources.get("requests")), _read(resources.get("limits"))
    return {**limits, **requests} if limits else requests


def _read(amounts: Any) -> dict[str, int]:
    return {name: billionths(amount) for name, amount in amounts.items()} if isinstance(amounts, dict) else {}


def _sum(first: Mapping[str, int], then: Mapping[str, int]) -> Mapping[str, int]:
    """The sum by resource. Most pods have one container and no overhead, so one of both is often empty."""
    if not first or not then:
        return first or then
    total = dict(first)
    for name, amount in then.items():
        total[name] = total.get(name, 0) + amount
    return total


def _most(first: Mapping[str, int], then: Mapping[str, int]) -> Mapping[str, int]:
    return {name: max(first.get(name, 0), then.get(name, 0)) for name in {**first, **then}}


def _billionths(value: str | float) -> int:
    try:
        return int(parse_quantity(value.strip() if isinstance(value, str) else value) * ONE)
    except QuantityError:
        return 0


_cached_billionths = lru_cache(maxsize=4096)(_billionths)
