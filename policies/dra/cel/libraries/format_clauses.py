"""Clauses of `format`, such as `%.2f`: what is said of them, before they run and while they do."""

from __future__ import annotations

__all__ = ["REFUSALS", "ClauseError", "read_precision"]

REFUSALS = {
    "s": "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, "
    "and timestamps",
    "d": "decimal clause can only be used on integers",
    "f": "fixed-point clause can only be used on doubles",
    "e": "scientific clause can only be used on doubles",
    "b": "only integers and bools can be formatted as binary",
    "x": "only integers, byte buffers, and strings can be formatted as hex",
    "o": "octal clause can only be used on integers",
}
"""What each clause says of an argument that it does not take. Source: cel-go ext/formatting.go."""

_LARGEST_INT = 2**63 - 1


class ClauseError(ValueError):
    """A clause that cannot be read; its text is cel-go's."""


def read_precision(digits: str, *, is_last: bool) -> int:
    """The precision that digits behind a dot tell.

    Args:
        digits: Perhaps none.
        is_last: Whether the text ends with them.

    Raises:
        ClauseError: they tell none.
    """
    significant = digits.lstrip("0") or "0"
    if is_last:
        reason = "could not find end of precision specifier"
    elif not digits:
        reason = 'error while converting precision to integer: strconv.Atoi: parsing "": invalid syntax'
    elif len(significant) > len(str(_LARGEST_INT)) or int(significant) > _LARGEST_INT:
        reason = f'error while converting precision to integer: strconv.Atoi: parsing "{digits}": value out of range'
    else:
        return int(significant)
    raise ClauseError(f"could not parse formatting clause: error while parsing precision: {reason}")
