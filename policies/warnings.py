"""Warnings: what the API server passes on to the author of a request."""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["LONGEST", "warning_lines"]

LONGEST = 120
"""Characters of one warning. The API server cuts after 256 and drops a header with control characters."""
_MOST = 4096
"""Characters of all warnings together, beyond which the API server cuts."""


def warning_lines(texts: Iterable[str]) -> tuple[str, ...]:
    """Break texts into warnings that arrive whole; what would be cut off is counted in the last one.

    Source: k8s.io/api/admission/v1 AdmissionResponse.warnings; apiserver pkg/endpoints/filters/warning.go.
    """
    lines = []
    for text in texts:
        printable = "".join(character if character.isprintable() else " " for character in text)
        lines += wrap(printable, LONGEST, subsequent_indent="  ", break_on_hyphens=False)
    kept: list[str] = []
    room = _MOST - LONGEST
    for line in dict.fromkeys(lines):
        room -= len(line)
        if room < 0:
            return (*kept, f"{len(lines) - len(kept)} more lines do not fit; gpu-admission review shows them all")
        kept.append(line)
    return tuple(kept)
