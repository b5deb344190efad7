"""Doubles as `%f` and `%e` of `format` write them: in American English.

cel-go prints these two with golang.org/x/text/message in the locale en_US, whose habits include commas between
thousands, `∞`, superscript exponents, and numbers of digits that are kept in 8 and 16 bits.
"""

from __future__ import annotations

import math
from decimal import Decimal

__all__ = ["fixed", "scientific"]

_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_FRACTION_DIGITS = 6
_NO_VERB = "%!(NOVERB)"
_LARGEST_NUMBER_IN_FORMAT = 1_000_000


def fixed(number: float, precision: int) -> str:
    """`1,234.50`.

    Source: golang.org/x/text message/print.go, fmtDecimalFloat, and internal/number/format.go.
    """
    if _is_unreadable(precision):
        return _NO_VERB
    if not math.isfinite(number):
        return _special(number)
    at_most = (precision + 2**15) % 2**16 - 2**15
    digits = f"{abs(number):.{at_most}f}" if at_most >= 0 else f"{Decimal(repr(abs(number))):f}"
    whole, _, fraction = digits.partition(".")
    fraction = fraction.rstrip("0").ljust(precision % 2**8, "0")
    return f"{'-' if number < 0 else ''}{int(whole):,}{'.' if fraction else ''}{fraction}"


def scientific(number: float, width: int) -> str:
    """A mantissa and a power of ten in superscript, always with six digits behind the point: what is written as a precision is the width.

    Source: cel-go ext/formatting.go, Scientific; golang.org/x/text message/print.go, fmtScientific.
    """
    if _is_unreadable(width):
        return _NO_VERB
    text = _special(number)
    if math.isfinite(number):
        mantissa, _, power = f"{abs(number):.{_FRACTION_DIGITS}e}".partition("e")
        sign = "-" if number < 0 else ""
        exponent = f"{'-' if int(power) < 0 else ''}{abs(int(power)):02d}"
        text = f"{sign}{mantissa}\N{MULTIPLICATION SIGN}10{exponent.translate(_SUPERSCRIPTS)}"
    return text.rjust(width % 2**16)


def _is_unreadable(number_in_format: int) -> bool:
    """Whether x/text gives up on a number before it has read all of its digits."""
    return number_in_format // 10 > _LARGEST_NUMBER_IN_FORMAT


def _special(number: float) -> str:
    if math.isnan(number):
        return "NaN"
    return "-∞" if number < 0 else "∞"
