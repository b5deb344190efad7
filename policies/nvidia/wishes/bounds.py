"""Bounds of wishes: the least memory, compute capability and driver version, and the most memory."""

from __future__ import annotations

import re
from math import ceil, floor
from typing import TYPE_CHECKING, Literal

from policies.kubernetes.printable import shown
from policies.kubernetes.quantities import QuantityError, parse_quantity
from policies.nvidia.driver_versions import DriverVersion
from policies.nvidia.wishes.errors import WishError

if TYPE_CHECKING:
    from collections.abc import Callable
    from fractions import Fraction

__all__ = [
    "as_sold",
    "driver_text",
    "pair_text",
    "read_compute_capability",
    "read_cuda",
    "read_driver",
    "read_least_memory",
    "read_most_memory",
]

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
    """A lower bound in gigabytes instead of gibibytes, `80G` for `80Gi`; None if it has another unit.

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
        raise WishError(f"is {shown(text)}, which is not a Kubernetes quantity", _remedy(text, sold)) from None
    if amount <= 0:
        raise WishError(f"is {shown(text)}, which is not above zero", f"remove it, or {_EXAMPLE}")
    if amount < _MEBI:
        said = f"{text} bytes" if _DIGITS.fullmatch(text) else "less than 1Mi"
        raise WishError(f"is {shown(text)}, which is {said}", _remedy(text, sold))
    if amount > _MOST:
        raise WishError(f"is {shown(text)}, which is more memory than any GPU has", _EXAMPLE)
    return amount


def _remedy(text: str, sold: _Unit) -> str:
    guess = _similar_amount(text, sold)
    return f'write "{guess}"' if guess is not None and _MEBI <= parse_quantity(guess) <= _MOST else _EXAMPLE


def _similar_amount(text: str, sold: _Unit) -> str | None:
    if _DIGITS.fullmatch(text):
        return f"{text}{sold if int(text) < _LABEL_LIKE else 'Mi'}"
    match = _NEARLY.fullmatch(text)
    if match is None:
        return None
    number, letter, binary = match.groups()
    if letter.upper() == "G" and number.isdecimal():
        return f"{number}{sold}"
    return f"{number}{letter.upper()}{'i' if binary else ''}"


_PAIR = re.compile(r"([0-9]{1,2})(?:\.([0-9]{1,2}))?", re.ASCII)
_NUMBERS = re.compile(r"[0-9]+(?:\.[0-9]+)*", re.ASCII)
_NO_DOT = re.compile(r"([0-9]{1,2})([0-9])", re.ASCII)
_HIGHEST_CAPABILITY = 29
"""Beyond it a dot is missing: `86`, `sm_90`. Rubin has 13."""
_OLDEST_DRIVER = 300


def read_compute_capability(text: str) -> tuple[int, int]:
    """Read `8.6`, or `9` for 9.0.

    Raises:
        WishError: it is neither.
    """
    version = _capability(text)
    if version is not None:
        return version
    guess = _version_within(text, 2, _capability) or _with_dot(text)
    raise WishError(
        f"is {shown(text)}, which is not a compute capability",
        f'write "{guess}"' if guess else 'write one such as "8.6" or "9"',
    )


def read_cuda(text: str) -> tuple[int, int]:
    """Read `12.4`, or `13` for 13.0.

    Raises:
        WishError: it is neither.
    """
    version = _pair(text)
    if version is not None:
        return version
    guess = _version_within(text, 2, _pair)
    remedy = f'write "{guess}"' if guess else 'write one such as "12.4"'
    if not guess and _driver(text):
        remedy += f', or gpu-admission.io/min-driver: "{text}"'
    raise WishError(f"is {shown(text)}, which is not a version of CUDA", remedy)


def read_driver(text: str) -> tuple[int, int, int]:
    """Read `580.95.05`, or its beginning: `580`, `580.95`.

    Raises:
        WishError: the text is not such a version.
    """
    version = _driver(text)
    if version is not None:
        return version
    guess = _version_within(text, 3, _driver)
    remedy = f'write "{guess}"' if guess else 'write one such as "580.95"'
    if not guess and _pair(text):
        remedy += f', or gpu-admission.io/min-cuda: "{text}"'
    raise WishError(f"is {shown(text)}, which is not a driver version", remedy)


def pair_text(version: tuple[int, int]) -> str:
    """A compute capability or a version of CUDA: `9.0`."""
    return "{}.{}".format(*version)


def driver_text(version: tuple[int, int, int]) -> str:
    """A driver version as NVIDIA writes it, without zeros at the end: `580.95.05`, `580.95`, `580`."""
    branch, minor, patch = version
    return f"{branch}.{minor:02}.{patch:02}".removesuffix(".00").removesuffix(".00")


def _pair(text: str) -> tuple[int, int] | None:
    match = _PAIR.fullmatch(text)
    return (int(match.group(1)), int(match.group(2) or 0)) if match else None


def _capability(text: str) -> tuple[int, int] | None:
    version = _pair(text)
    return version if version and version[0] <= _HIGHEST_CAPABILITY else None


def _driver(text: str) -> tuple[int, int, int] | None:
    version = DriverVersion.parse(text)
    if version is None or version.branch < _OLDEST_DRIVER:
        return None
    branch, minor, patch = (*version.numbers, 0, 0)[:3]
    return branch, minor, patch


def _version_within(text: str, length: int, read: Callable[[str], tuple[int, ...] | None]) -> str | None:
    """The version that stands somewhere in a text: `8.6` in `>=8.6`, `12.4` in `12.4.1`."""
    found = _NUMBERS.search(text.replace(",", "."))
    guess = ".".join(found.group().split(".")[:length]) if found else ""
    return guess if guess != text and read(guess) else None


def _with_dot(text: str) -> str | None:
    """The compute capability that stands in a text without its dot: `8.6` in `sm_86`."""
    found = _NUMBERS.search(text)
    digits = _NO_DOT.fullmatch(found.group()) if found else None
    guess = f"{digits.group(1)}.{digits.group(2)}" if digits else ""
    return guess if _capability(guess) else None
