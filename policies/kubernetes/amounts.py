"""Amounts of a node's resources: what a pod asks for, what the pods of a node take, and how to say it."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from policies.caches import remember_short
from policies.kubernetes.objects import has_ended
from policies.kubernetes.paths import lookup
from policies.kubernetes.quantities import QuantityError, parse_quantity

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from policies.kubernetes.objects import Object

__all__ = ["ONE", "Amounts", "billionths", "pod_amounts", "spoken", "taken_by"]

ONE = 10**9
"""One whole, in the billionths in which amounts are kept."""

Amounts = tuple[tuple[str, int], ...]
"""Resources in the order of their names, each with billionths."""

_GIBI = 1024**3
_BYTES = ("memory", "ephemeral-storage", "hugepages-")


def billionths(value: Any) -> int:
    """A quantity of an object; what is none counts as nothing, since files on disk are checked by nobody."""
    return _billionths(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else 0


def pod_amounts(spec: Any) -> dict[str, int]:
    """What a pod with this spec takes of a node, in billionths by resource; one of `pods`.

    Containers and sidecars add up. Every other init container runs alone but for the sidecars started before it, so it
    counts only where it asks for more than all the rest. What the pod asks for as a whole stands before that.

    Source: PodRequests in k8s.io/component-helpers/resource/helpers.go.
    """
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in _items(spec, "initContainers"):
        amounts = _requests(lookup(container, ("resources",)))
        if lookup(container, ("restartPolicy",)) == "Always":
            sidecars = _sum((sidecars, amounts))
            peak = _most(peak, sidecars)
        else:
            peak = _most(peak, _sum((sidecars, amounts)))
    running = _sum((sidecars, *(_requests(lookup(each, ("resources",))) for each in _items(spec, "containers"))))
    total = {**_most(peak, running), **_requests(lookup(spec, ("resources",)))}
    overhead = lookup(spec, ("overhead",))
    return {**_sum((total, _read(overhead))), "pods": ONE}


def taken_by(pod: Object) -> tuple[str, Amounts] | None:
    """A pod's node, and what it takes of it; None where it takes nothing, since it has no node yet or has ended."""
    node = lookup(pod, ("spec", "nodeName"))
    if not isinstance(node, str) or not node or has_ended(pod):
        return None
    amounts = pod_amounts(pod.get("spec")).items()
    return node, _once(tuple(sorted((name, amount) for name, amount in amounts if amount)))


@remember_short(4096)
def _once(amounts: Amounts) -> Amounts:
    """The same object for what is equal: many pods have the same template."""
    return amounts


def spoken(resource: str, amount: int) -> str:
    """An amount for people: bytes in Gi, everything else as a plain number."""
    value = Fraction(amount, ONE)
    if resource.startswith(_BYTES):
        return f"{_decimal(value / _GIBI, 1)}Gi"
    return _decimal(value, 3)


def _decimal(value: Fraction, places: int) -> str:
    text = f"{float(value):.{places}f}".rstrip("0").rstrip(".")
    return text if text not in ("", "-0") else "0"


def _items(spec: Any, field: str) -> list[Any]:
    found = lookup(spec, (field,))
    return found if isinstance(found, list) else []


def _requests(resources: Any) -> dict[str, int]:
    """Requests, and limits where there is no request, as the API server fills them in."""
    return {**_read(lookup(resources, ("limits",))), **_read(lookup(resources, ("requests",)))}


def _read(amounts: Any) -> dict[str, int]:
    return {name: billionths(amount) for name, amount in amounts.items()} if isinstance(amounts, dict) else {}


def _sum(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for part in parts:
        for name, amount in part.items():
            total[name] = total.get(name, 0) + amount
    return total


def _most(first: Mapping[str, int], then: Mapping[str, int]) -> dict[str, int]:
    return {name: max(first.get(name, 0), then.get(name, 0)) for name in {**first, **then}}


@remember_short(4096)
def _billionths(value: str | float) -> int:
    try:
        return int(parse_quantity(value.strip() if isinstance(value, str) else value) * ONE)
    except QuantityError:
        return 0
