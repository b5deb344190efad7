"""Quantities: `quantity("80Gi")`, capacities of devices, and the functions on them."""

from __future__ import annotations

import math
import re
import sys
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import ClassVar, NamedTuple

from policies.cel.declarations import Overload, function, member
from policies.cel.errors import CelRuntimeError
from policies.cel.types import BOOL, DOUBLE, INT, STRING, Type
from policies.kubernetes.quantities import INT64_MAX, INT64_MIN

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
    """The notation of a quantity, which is kept when it is written again."""

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


QUANTITY = Type("kubernetes.Quantity", kind="object")
"""The type of quantities; expressions cannot name it."""

_MOST_DIGITS = 1024
"""On either side of the point. Kubernetes sets no bound; this one bounds the work of a hostile literal."""

_SMALLEST_POWER = -323
_POWER_STEP = 32


@dataclass(frozen=True, slots=True, eq=False)
class Quantity:
    """A number: `amount` times ten to the power of `exponent`, exact to the ninth decimal."""

    cel_type: ClassVar[Type] = QUANTITY

    amount: int
    exponent: int = 0
    is_decimal: bool = False
    """True if Kubernetes keeps it as a decimal of any size, which is never an integer."""
    is_computed: bool = False
    """True if `add` or `sub` made it; `==` in Kubernetes takes nothing else for a quantity on its right."""
    notation: Notation = Notation.DECIMAL
    nanos: int = field(init=False)
    """The value in billionths; by it quantities are compared."""

    def __post_init__(self) -> None:
        """Compute `nanos`; what has decimals beyond the ninth has only zeros there."""
        power = self.exponent - NANO
        nanos = self.amount * 10**power if power >= 0 else self.amount // 10**-power
        object.__setattr__(self, "nanos", nanos)

    @staticmethod
    def read(text: str) -> Quantity:
        """The quantity that a text denotes.

        Raises:
            CelRuntimeError: it is not a quantity, or has more than 1,024 digits.
        """
        parts = QuantityText.read(text)
        if len(parts.whole) + abs(parts.exponent) > _MOST_DIGITS or len(parts.fraction) > _MOST_DIGITS:
            raise CelRuntimeError(f"quantity has more than the {_MOST_DIGITS} digits that are computed here")
        return replace(_short(parts) if parts.is_short else _long(parts), notation=parts.notation)

    def __eq__(self, other: object) -> bool:
        """True if both are quantities of the same value."""
        return self.nanos == other.nanos if isinstance(other, Quantity) else NotImplemented

    def __hash__(self) -> int:
        """Equal quantities have equal hashes."""
        return hash(self.nanos)

    def __str__(self) -> str:
        """As Kubernetes spells it."""
        return canonical_text(self.amount, self.exponent, self.notation)

    def integer(self) -> int | None:
        """The value, if it is kept in 64 bits, without decimals, and fits into an int."""
        return None if self.is_decimal else _scale(self.amount, self.exponent)


def _short(parts: QuantityText) -> Quantity:
    amount = int(parts.whole + parts.fraction)
    signed = -amount if parts.is_negative else amount
    if parts.is_binary:
        return Quantity(signed << parts.exponent)
    return Quantity(signed, parts.exponent - len(parts.fraction))


def _long(parts: QuantityText) -> Quantity:
    """Away from zero to the next billionth; with a binary suffix at most 64 bits."""
    amount = int(parts.whole + parts.fraction)
    decimal_exponent = (0 if parts.is_binary else parts.exponent) - len(parts.fraction)
    if not amount:
        return Quantity(0, decimal_exponent, is_decimal=True)
    if parts.is_binary:
        amount <<= parts.exponent
    power = decimal_exponent - NANO
    nanos = amount * 10**power if power >= 0 else -(-amount // 10**-power)
    sign = -1 if parts.is_negative else 1
    if parts.is_binary and nanos > INT64_MAX * 10**-NANO:
        return Quantity(sign * INT64_MAX, is_decimal=True)
    return Quantity(sign * nanos, NANO, is_decimal=True)


def _scale(amount: int, power: int) -> int | None:
    """`amount` times a power of ten, if it is whole and within 64 bits."""
    if power < 0:
        return None
    scaled = amount * 10**power
    return scaled if INT64_MIN <= scaled <= INT64_MAX else None


def _short_sum(quantity: Quantity, amount: int, exponent: int) -> Quantity | None:
    """The sum, if it and both operands fit into 64 bits at the smaller exponent."""
    if not amount:
        return Quantity(quantity.amount, quantity.exponent, is_computed=True)
    if not quantity.amount:
        return Quantity(amount, exponent, is_computed=True)
    lowest = min(quantity.exponent, exponent)
    augend, addend = _scale(quantity.amount, quantity.exponent - lowest), _scale(amount, exponent - lowest)
    if augend is None or addend is None or not INT64_MIN <= augend + addend <= INT64_MAX:
        return None
    return Quantity(augend + addend, lowest, is_computed=True)


def _long_sum(quantity: Quantity, amount: int, exponent: int) -> Quantity:
    lowest = min(quantity.exponent, exponent)
    total = quantity.amount * 10 ** (quantity.exponent - lowest) + amount * 10 ** (exponent - lowest)
    return Quantity(total, lowest, is_decimal=True, is_computed=True)


def _add(quantity: Quantity, other: Quantity) -> Quantity:
    are_short = not (quantity.is_decimal or other.is_decimal)
    short = _short_sum(quantity, other.amount, other.exponent) if are_short else None
    return _with_notation(short or _long_sum(quantity, other.amount, other.exponent), quantity, other)


def _sub(quantity: Quantity, other: Quantity) -> Quantity:
    are_short = not (quantity.is_decimal or other.is_decimal)
    short = _short_sum(quantity, _negate(other.amount), other.exponent) if are_short else None
    return _with_notation(short or _long_sum(quantity, -other.amount, other.exponent), quantity, other)


def _with_notation(result: Quantity, left: Quantity, right: Quantity) -> Quantity:
    """A result is written like the left operand, unless that is 0."""
    return replace(result, notation=left.notation if left.amount else right.notation)


def _negate(amount: int) -> int:
    """As 64 bits do it: the smallest int is its own negative."""
    return amount if amount == INT64_MIN else -amount


def _is_quantity(text: str) -> bool:
    try:
        QuantityText.read(text)
    except CelRuntimeError:
        return False
    return True


def _as_integer(quantity: Quantity) -> int:
    integer = quantity.integer()
    if integer is None:
        raise CelRuntimeError("cannot convert value to integer")
    return integer


def _as_approximate_float(quantity: Quantity) -> float:
    """Rounded twice, as Kubernetes does: the amount to a double, then its product with the power of ten."""
    try:
        amount = float(quantity.amount)
    except OverflowError:
        amount = math.inf if quantity.amount > 0 else -math.inf
    return amount * _power_of_ten(quantity.exponent) if quantity.exponent else amount


def _power_of_ten(exponent: int) -> float:
    """Go's math.Pow10, which multiplies or divides two entries of its tables."""
    if exponent < _SMALLEST_POWER or exponent > sys.float_info.max_10_exp:
        return 0.0 if exponent < 0 else math.inf
    steps, rest = divmod(abs(exponent), _POWER_STEP)
    large, small = float(f"1e{steps * _POWER_STEP}"), float(f"1e{rest}")
    return large * small if exponent > 0 else float(f"1e-{steps * _POWER_STEP}") / small


_BINARY_OPERATION = (QUANTITY, QUANTITY)

LIBRARY: tuple[Overload, ...] = (
    function("quantity", "string_to_quantity", (STRING,), QUANTITY, Quantity.read),
    function("isQuantity", "is_quantity_string", (STRING,), BOOL, _is_quantity),
    function("sign", "quantity_sign", (QUANTITY,), INT, lambda quantity: (quantity.nanos > 0) - (quantity.nanos < 0)),
    member(
        "isGreaterThan",
        "quantity_is_greater_than",
        _BINARY_OPERATION,
        BOOL,
        lambda quantity, other: quantity.nanos > other.nanos,
    ),
    member(
        "isLessThan",
        "quantity_is_less_than",
        _BINARY_OPERATION,
        BOOL,
        lambda quantity, other: quantity.nanos < other.nanos,
    ),
    member(
        "compareTo",
        "quantity_compare_to",
        _BINARY_OPERATION,
        INT,
        lambda quantity, other: (quantity.nanos > other.nanos) - (quantity.nanos < other.nanos),
    ),
    member("asApproximateFloat", "quantity_get_float", (QUANTITY,), DOUBLE, _as_approximate_float),
    member("asInteger", "quantity_get_int", (QUANTITY,), INT, _as_integer),
    member("isInteger", "quantity_is_integer", (QUANTITY,), BOOL, lambda quantity: quantity.integer() is not None),
    member("add", "quantity_add", _BINARY_OPERATION, QUANTITY, _add),
    member(
        "add", "quantity_add_int", (QUANTITY, INT), QUANTITY, lambda quantity, number: _add(quantity, Quantity(number))
    ),
    member("sub", "quantity_sub", _BINARY_OPERATION, QUANTITY, _sub),
    member(
        "sub", "quantity_sub_int", (QUANTITY, INT), QUANTITY, lambda quantity, number: _sub(quantity, Quantity(number))
    ),
)
