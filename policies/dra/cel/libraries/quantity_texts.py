"""The grammar of quantities, which of them Kubernetes keeps in 64 bits, and their canonical text.

Source: k8s.io/apimachinery/pkg/api/resource, quantity.go (ParseQuantity, CanonicalizeBytes) and suffix.go.
"""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import NamedTuple

from policies.dra.cel.errors import CelRuntimeError
from policies.kubernetes.quantities import INT64_MAX, INT64_MIN

__all__ = ["NANO", "Notation", "QuantityText", "canonical_text"]

NANO = -9
"""The exponent of the smallest decimal that a quantity can have."""

_MOST_SHORT_DIGITS = 18
_MOST_SHORT_BINARY_DIGITS = 14
"""The suffix uses some of them up."""

_WRONG_FORMAT = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_WRONG_NUMBER = "unable to parse numeric part of quantity"
_WRONG_SUFFIX = "unable to parse quantity's suffix"

_GRAMMAR = re.compile(r"([+-]?)(0*+)([0-9]*+)(?:\.([0-9]*+))?([eEinumkKMGTP]*+[+-]?[0-9]*+)")
_EXPONENT = re.compile(r"[eE]([+-]?)0*([0-9]+)")
_DECIMAL = {"": 0, **dict(zip("numkMGTPE", (-9, -6, -3, 3, 6, 9, 12, 15, 18), strict=True))}
_BINARY = {f"{letter}i": 10 * power for power, letter in enumerate("KMGTPE", start=1)}


class Notation(Enum):
    """How a quantity is written, and would be written again."""

    DECIMAL = auto()
    """`1k`"""
    BINARY = auto()
    """`1Ki`"""
    EXPONENT = auto()
    """`1e3`"""


class QuantityText(NamedTuple):
    """The parts of a text, before anything is computed."""

    is_negative: bool
    whole: str
    """Digits before the point, without leading zeros; `0` without digits."""
    fraction: str
    exponent: int
    """Of 10, or of 2."""
    notation: Notation

    @property
    def is_binary(self) -> bool:
        """True if the exponent is one of 2."""
        return self.notation is Notation.BINARY

    @classmethod
    def read(cls, text: str) -> QuantityText:
        """Take a text apart; `.`, `+` and `Ki` are 0 for Kubernetes.

        Raises:
            CelRuntimeError: the text is not a quantity.
        """
        match = _GRAMMAR.fullmatch(text)
        if match is None or not text:
            raise CelRuntimeError(_WRONG_FORMAT)
        sign, zeros, digits, fraction, suffix = match.groups("")
        exponent, notation = _power(suffix)
        parts = cls(sign == "-", digits or "0", fraction, exponent, notation)
        if not (zeros or digits or fraction or parts.is_short):
            raise CelRuntimeError(_WRONG_NUMBER)
        return parts

    @property
    def is_short(self) -> bool:
        """True if Kubernetes keeps it in 64 bits; it judges by the number of digits."""
        if self.is_binary:
            return not self.fraction and len(self.whole) <= _MOST_SHORT_BINARY_DIGITS - self.exponent * 3 // 10
        is_small = len(self.whole) + len(self.fraction) <= _MOST_SHORT_DIGITS
        return is_small and self.exponent - len(self.fraction) >= NANO


def _power(suffix: str) -> tuple[int, Notation]:
    """The power of ten or of two that a suffix stands for."""
    if suffix in _DECIMAL:
        return _DECIMAL[suffix], Notation.DECIMAL
    if suffix in _BINARY:
        return _BINARY[suffix], Notation.BINARY
    match = _EXPONENT.fullmatch(suffix)
    if match is None or len(match[2]) > len(str(INT64_MAX)):
        raise CelRuntimeError(_WRONG_SUFFIX)
    exponent = int(match[1] + match[2])
    if not INT64_MIN <= exponent <= INT64_MAX:
        raise CelRuntimeError(_WRONG_SUFFIX)
    return (exponent + 2**31) % 2**32 - 2**31, Notation.EXPONENT


_DECIMAL_SUFFIXES = {-9: "n", -6: "u", -3: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P", 18: "E"}
_BINARY_SUFFIXES = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_STEP = 1024
_GROUP = 3


def canonical_text(amount: int, exponent: int, notation: Notation) -> str:
    """`amount` * 10^`exponent` in canonical form; omits powers beyond the suffixes, as Kubernetes does."""
    if not amount:
        return "0"
    if notation is Notation.BINARY:
        whole, rest = divmod(amount * 10 ** max(exponent, 0), 10 ** max(-exponent, 0))
        if not rest and abs(whole) >= _STEP:
            return _in_powers_of_1024(whole)
    while not amount % 10:
        amount //= 10
        exponent += 1
    amount *= 10 ** (exponent % _GROUP)
    exponent -= exponent % _GROUP
    if notation is Notation.EXPONENT:
        return f"{amount}e{exponent}" if exponent else str(amount)
    return f"{amount}{_DECIMAL_SUFFIXES.get(exponent, '')}"


def _in_powers_of_1024(whole: int) -> str:
    power = 0
    while not whole % _STEP:
        whole //= _STEP
        power += 1
    return f"{whole}{_BINARY_SUFFIXES[power] if power < len(_BINARY_SUFFIXES) else ''}"
