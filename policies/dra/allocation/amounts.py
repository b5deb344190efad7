"""Amounts of capacity: quantities with exact values that are written back as Kubernetes writes them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from policies.caches import remember_short
from policies.dra.allocation.errors import AllocationError
from policies.kubernetes.quantities import QuantityError, parse_quantity

if TYPE_CHECKING:
    from typing import Self

__all__ = ["Amount", "nanos"]

_NANO = 10**9
_DECIMAL = {-9: "n", -6: "u", -3: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P", 18: "E"}
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_SPELLED = re.compile(r"[+-]?0*(?P<whole>[0-9]*)(?:\.(?P<part>[0-9]*))?(?:[eE](?P<power>[+-]?[0-9]+)|(?P<suffix>.*))")


@dataclass(frozen=True, slots=True)
class Amount:
    """A quantity of a capacity; amounts are equal if their values and their notations are."""

    nanos: int
    """The value in billionths, the finest that Kubernetes knows."""
    notation: str = "BinarySI"
    """BinarySI (`1Gi`), DecimalSI (`1G`) or DecimalExponent (`1e9`)."""
    spelling: str = field(default="", compare=False)
    """How it was written, where Kubernetes keeps that."""

    @classmethod
    def read(cls, value: object, where: str) -> Self:
        """Read a quantity of an API object.

        Raises:
            AllocationError: it is not a quantity.
        """
        written = value if isinstance(value, str) else str(value)
        return cls(nanos(value, where), *_notation(written.strip()))

    @property
    def units(self) -> int:
        """The value as a whole number, rounded away from zero."""
        return -(-self.nanos // _NANO) if self.nanos > 0 else self.nanos // _NANO

    @classmethod
    def of_units(cls, units: int) -> Self:
        """A whole number, in binary notation."""
        return cls(units * _NANO)

    def __str__(self) -> str:
        """Kubernetes' canonical form.

        Source: k8s.io/apimachinery/pkg/api/resource/quantity.go CanonicalizeBytes.
        """
        if self.spelling:
            return self.spelling
        if self.nanos == 0:
            return "0"
        if self.notation == "BinarySI" and abs(self.nanos) >= 1024 * _NANO and self.nanos % _NANO == 0:
            mantissa, power = _without_factors(self.nanos // _NANO, 1024, len(_BINARY) - 1)
            return f"{mantissa}{_BINARY[power]}"
        mantissa, zeros = _without_factors(self.nanos, 1000, 9)
        exponent = 3 * zeros - 9
        if self.notation == "DecimalExponent":
            return f"{mantissa}e{exponent}" if exponent else str(mantissa)
        return f"{mantissa}{_DECIMAL[exponent]}"


def nanos(value: object, where: str) -> int:
    """The value of a quantity in billionths.

    Raises:
        AllocationError: it is not a quantity.
    """
    if not isinstance(value, str | int | float):
        raise AllocationError(f"{where}: {value!r} is not a quantity")
    try:
        return _nanos(value.strip() if isinstance(value, str) else value, isinstance(value, bool))
    except QuantityError as error:
        raise AllocationError(f"{where}: {value!r} {error}") from None


@remember_short(4096)
def _nanos(value: str | float, is_bool: bool) -> int:
    """`is_bool` keeps True and 1 apart, which are one key otherwise."""
    return int(parse_quantity(bool(value) if is_bool else value) * _NANO)


def _without_factors(number: int, factor: int, most: int) -> tuple[int, int]:
    """Divide by a factor as often as that is exact, and at most so often."""
    times = 0
    while times < most and number % factor == 0:
        number, times = number // factor, times + 1
    return number, times


def _notation(written: str) -> tuple[str, str]:
    """The notation of a quantity, and its spelling where Kubernetes prints it again unchanged.

    Source: k8s.io/apimachinery/pkg/api/resource/quantity.go ParseQuantity, "if the number is in canonical form".
    """
    match = _SPELLED.fullmatch(written)
    if match is None:
        return "DecimalSI", ""
    whole, part, power, suffix = match["whole"] or "", match["part"] or "", match["power"], match["suffix"] or ""
    digits = (whole or "0") + part
    if suffix in _BINARY[1:]:
        power_of_two = 10 * _BINARY.index(suffix)
        fits = 15 - len(whole or "0") - power_of_two * 3 // 10 - 1 >= 0
        kept = fits and not part and int(digits) & 7 != 0
        below_one = bool(part) and 0 < float(f"{whole or '0'}.{part}") * 2**power_of_two < 1
        return "DecimalSI" if below_one else "BinarySI", written if kept else ""
    if power is None:
        scale = next((exponent for exponent, letter in _DECIMAL.items() if letter == suffix), 0)
    else:
        scale = int(power)
    scale -= len(part)
    kept = len(digits) <= 18 and scale >= -9 and scale % 3 == 0 and not digits.endswith("000") and digits[0] != "0"
    return "DecimalSI" if power is None else "DecimalExponent", written if kept else ""
