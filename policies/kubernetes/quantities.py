"""Numbers: exact quantities such as `1`, `1000m`, `80Gi` and `1e3`, and 64-bit integers."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from math import ceil

__all__ = ["INT64_MAX", "INT64_MIN", "QuantityError", "parse_integer", "parse_quantity"]

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
