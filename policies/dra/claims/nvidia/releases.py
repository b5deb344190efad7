"""Releases of NVIDIA's DRA driver, which were counted by the year until 25.12 and begin with 0 since."""

from __future__ import annotations

import re

__all__ = ["older"]

_RELEASE = re.compile(r"v?(\d{1,6})\.(\d{1,6})")
_FIRST_YEAR = 24


def older(release: str, other: str) -> bool:
    """Whether a release came before another; False where one of them cannot be read."""
    one, two = _order(release), _order(other)
    return one is not None and two is not None and one < two


def _order(release: str) -> tuple[bool, int, int] | None:
    match = _RELEASE.match(release)
    if match is None:
        return None
    major, minor = int(match[1]), int(match[2])
    return major < _FIRST_YEAR, major, minor
