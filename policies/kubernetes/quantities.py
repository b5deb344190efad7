"""Quantities: exact numbers such as `1000m`, `80Gi` and `1e3`, and amounts of a node's resources."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from math import ceil
from typing import TYPE_CHECKING, Any

from policies.kubernetes.bounds import LONGEST_KEY
from policies.kubernetes.names import format_amount
from policies.kubernetes.objects import has_ended, items_at, lookup

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policies.kubernetes.objects import Object


INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1

# Kubernetes bounds neither; these bound the work that a hostile literal can cause and leave room for everything that is
# meant: 64 bits with 9 decimals are 29 characters.
_MOST_CHARACTERS = 64
_LARGEST_EXPONENT = 64

_DECIMAL = {
    "": Fraction(1),
    **{letter: Fraction(10) ** power for letter, power in zip("num", (-9, -6, -3), strict=True)},
    **{letter: Fraction(10) ** power for letter, power in zip("kMGTPE", range(3, 21, 3), strict=True)},
}
_BINARY = {f"{letter}i": Fraction(1024) ** power for power, letter in enumerate("KMGTPE", start=1)}
_MOST_BINARY = Fraction(INT64_MAX)
_NANO = 10**9
_INTEGER = re.compile(r"[+-]?[0-9]{1,63}")
_QUANTITY = re.compile(r"([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))(?:[eE]([+-]?[0-9]+)|([A-Za-z]{0,2}))")


class QuantityError(ValueError):
    """The text is not a quantity."""


def parse_quantity(value: object) -> Fraction:
    """Read a quantity as Kubernetes does: exact to the ninth decimal, and away from zero beyond it.

    Numbers are accepted beside text because YAML and JSON give `nvidia.com/gpu: 1` as a number. Text without a digit
    (`Ki`, `.`), which Kubernetes reads as 0, is refused, because it is always a mistake.

    Raises:
        QuantityError: `value` is not a quantity, or longer than 64 characters.

    Source: k8s.io/apimachinery/pkg/api/resource/quantity.go.
    """
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise QuantityError("is not a quantity")
    text = repr(value) if isinstance(value, float) else value if isinstance(value, str) else _integer_text(value)
    if len(text) > _MOST_CHARACTERS:
        raise QuantityError(f"is longer than the {_MOST_CHARACTERS} characters a quantity can have")
    return _parse(text)


def quantity_or_none(value: object) -> Fraction | None:
    """The value of a quantity; None if it is invalid."""
    try:
        return parse_quantity(value)
    except QuantityError:
        return None


def mebibytes_text(amount: int) -> str:
    """A number of MiB as Kubernetes writes it: `81559Mi`, `80Gi`, `1Ti`."""
    for unit in ("Mi", "Gi"):
        if amount % 1024:
            return f"{amount}{unit}"
        amount //= 1024
    return f"{amount}Ti"


def parse_integer(text: str) -> int | None:
    """The integer that Go's strconv.ParseInt reads; None if the text is not an integer of 64 bits."""
    if not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if INT64_MIN <= number <= INT64_MAX else None


@lru_cache(maxsize=4096)
def _parse(text: str) -> Fraction:
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise QuantityError("is not a quantity")
    number, exponent, suffix = match.groups()
    if exponent is not None:
        power = int(exponent)
        if abs(power) > _LARGEST_EXPONENT:
            raise QuantityError(f"has an exponent beyond {_LARGEST_EXPONENT}")
        return _round(Fraction(number) * Fraction(10) ** power)
    if suffix in _BINARY:
        exact = _round(Fraction(number) * _BINARY[suffix])
        return max(-_MOST_BINARY, min(exact, _MOST_BINARY))
    if suffix not in _DECIMAL:
        raise QuantityError(f'has the unknown suffix "{suffix}"')
    return _round(Fraction(number) * _DECIMAL[suffix])


def _round(number: Fraction) -> Fraction:
    if _NANO % number.denominator == 0:
        return number
    nanos = ceil(abs(number) * _NANO)
    return Fraction(nanos if number > 0 else -nanos, _NANO)


def _integer_text(value: int) -> str:
    """Spell an integer without tripping over Python's limit on digits."""
    return str(value) if value.bit_length() <= 4 * _MOST_CHARACTERS else "9" * (_MOST_CHARACTERS + 1)


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


def resource_amount(resource: str, amount: int, beside: int | None = None) -> str:
    """An amount of a resource as `format_amount` writes it, bytes in GiB: `47.8`, `15 GiB`."""
    return f"{bare_resource_amount(resource, amount, beside)}{' GiB' if resource.startswith(_BYTES) else ''}"


def bare_resource_amount(resource: str, amount: int, beside: int | None = None) -> str:
    """An amount as `resource_amount` writes it, without a unit: the `15` of `15 of 207 GiB`."""
    size = ONE * (_GIBI if resource.startswith(_BYTES) else 1)
    return format_amount(Fraction(amount, size), None if beside is None else Fraction(beside, size))


def exact_amount(resource: str, amount: int) -> str:
    """An exact amount of a resource as Kubernetes writes quantities: `4`, `7810m`, `15Gi`."""
    whole, rest = divmod(amount, ONE)
    if rest:
        return f"{amount}n" if rest % (ONE // 1000) else f"{amount // (ONE // 1000)}m"
    sizes = (("Gi", _GIBI), ("Mi", 1024**2), ("Ki", 1024)) if whole and resource.startswith(_BYTES) else ()
    return next((f"{whole // size}{suffix}" for suffix, size in sizes if whole % size == 0), str(whole))


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
