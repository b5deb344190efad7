"""`gpu-admission.io/min-compute-capability`, `min-driver` and `min-cuda`: versions, and how people write them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from policies.kubernetes.printable import shown
from policies.nvidia.driver_versions import DriverVersion
from policies.nvidia.wishes.errors import WishError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["driver_text", "pair_text", "read_compute_capability", "read_cuda", "read_driver"]

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
    guess = _guess(text, 2, _capability) or _with_dot(text)
    raise WishError(
        f"is {shown(text)}, which is no compute capability",
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
    guess = _guess(text, 2, _pair)
    remedy = f'write "{guess}"' if guess else 'write one such as "12.4"'
    if not guess and _driver(text):
        remedy += f', or gpu-admission.io/min-driver: "{text}"'
    raise WishError(f"is {shown(text)}, which is no version of CUDA", remedy)


def read_driver(text: str) -> tuple[int, int, int]:
    """Read `580.95.05`, or its beginning: `580`, `580.95`.

    Raises:
        WishError: it is none of these.
    """
    version = _driver(text)
    if version is not None:
        return version
    guess = _guess(text, 3, _driver)
    remedy = f'write "{guess}"' if guess else 'write one such as "580.95"'
    if not guess and _pair(text):
        remedy += f', or gpu-admission.io/min-cuda: "{text}"'
    raise WishError(f"is {shown(text)}, which is no version of a driver", remedy)


def pair_text(version: tuple[int, int]) -> str:
    """A compute capability or a version of CUDA: `9.0`."""
    return "{}.{}".format(*version)


def driver_text(version: tuple[int, int, int]) -> str:
    """A version of the driver, as NVIDIA writes it and without the zeros at its end: `580.95.05`, `580.95`, `580`."""
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


def _guess(text: str, length: int, read: Callable[[str], tuple[int, ...] | None]) -> str | None:
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
