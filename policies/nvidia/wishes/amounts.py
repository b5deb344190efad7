"""`gpu-admission.io/min-memory` and `max-memory`: quantities, in whole mebibytes as labels tell them."""

from __future__ import annotations

import re
from math import ceil, floor
from typing import TYPE_CHECKING, Literal

from policies.kubernetes.printable import shown
from policies.kubernetes.quantities import QuantityError, parse_quantity
from policies.nvidia.wishes.errors import WishError

if TYPE_CHECKING:
    from fractions import Fraction

__all__ = ["as_sold", "read_least_memory", "read_most_memory"]

_Unit = Literal["G", "Gi"]
_MEBI = 1024**2
_MOST = 2**50
_EXAMPLE = 'write one such as "40Gi"'

_NEARLY = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?) *([MGT])(i?)B?", re.IGNORECASE | re.ASCII)
_DIGITS = re.compile(r"[0-9]{1,9}")
_LABEL_LIKE = 1024
"""A bare number from here on was probably meant in MiB, as `nvidia.com/gpu.memory` has it, and a smaller one in gigabytes."""


def read_least_memory(text: str) -> int:
    """Read a lower bound, in MiB rounded up: a label of at least it means as many bytes.

    GPUs have less than the gigabytes that they are sold with: an H100 of 80 GB has 81559 MiB, which is 79.6Gi or 85G.

    Raises:
        WishError: it is no quantity, or none that a GPU can have.
    """
    return ceil(_bytes(text, "G") / _MEBI)


def read_most_memory(text: str) -> int:
    """Read an upper bound, in MiB rounded down: a label of at most it means fewer bytes than one MiB more.

    Raises:
        WishError: it is no quantity, or none that a GPU can have.
    """
    return floor(_bytes(text, "Gi") / _MEBI)


def as_sold(text: str) -> str | None:
    """As many gigabytes as a lower bound has gibibytes, `80G` for `80Gi`; None for one that is not in such units.

    GPUs are sold by the gigabyte, and have less than as many gibibytes; see `read_least_memory`.
    """
    gibibytes, rest = divmod(read_least_memory(text), 1024)
    return f"{gibibytes}G" if text.endswith("i") and not rest else None


def _bytes(text: str, sold: _Unit) -> Fraction:
    """The bytes that a text says.

    Args:
        text: of the wish.
        sold: the unit of a bound that GPUs meet which are sold with so many gigabytes: they have more than as many `G`,
            and less than as many `Gi`.
    """
    try:
        amount = parse_quantity(text)
    except QuantityError:
        raise WishError(f"is {shown(text)}, which is no Kubernetes quantity", _remedy(text, sold)) from None
    if amount <= 0:
        raise WishError(f"is {shown(text)}, which is no memory at all", f"remove it, or {_EXAMPLE}")
    if amount < _MEBI:
        said = f"{text} bytes" if _DIGITS.fullmatch(text) else "less than 1Mi"
        raise WishError(f"is {shown(text)}, which is {said}", _remedy(text, sold))
    if amount > _MOST:
        raise WishError(f"is {shown(text)}, which is more memory than any GPU has", _EXAMPLE)
    return amount


def _remedy(text: str, sold: _Unit) -> str:
    guess = _guess(text, sold)
    return f'write "{guess}"' if guess is not None and _MEBI <= parse_quantity(guess) <= _MOST else _EXAMPLE


def _guess(text: str, sold: _Unit) -> str | None:
    if _DIGITS.fullmatch(text):
        return f"{text}{sold if int(text) < _LABEL_LIKE else 'Mi'}"
    match = _NEARLY.fullmatch(text)
    if match is None:
        return None
    number, letter, binary = match.groups()
    if letter.upper() == "G" and number.isdecimal():
        return f"{number}{sold}"
    return f"{number}{letter.upper()}{'i' if binary else ''}"
