"""Integers: numbers as Kubernetes reads them from the values of labels."""

from __future__ import annotations

import re

__all__ = ["GREATEST", "LEAST", "parse_integer"]

LEAST, GREATEST = -(2**63), 2**63 - 1

_INTEGER = re.compile(r"[+-]?[0-9]{1,63}")


def parse_integer(text: str) -> int | None:
    """A number as Go's strconv.ParseInt reads it; what does not fit into 64 bits is none."""
    if not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if LEAST <= number <= GREATEST else None
