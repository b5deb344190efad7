"""Warnings: what the API server passes on to the author of a request."""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING

from policies.kubernetes.printable import printable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

__all__ = ["LONGEST", "warning_lines"]

LONGEST = 120
"""Characters of one warning. The API server cuts after 256 and drops a header with control characters."""
_MOST = 4096
"""Characters of all warnings together, beyond which the API server cuts."""


def warning_lines(texts: Iterable[str]) -> tuple[str, ...]:
    """Break texts into warnings that arrive whole; what would be cut off is counted in the last one.

    Source: k8s.io/api/admission/v1 AdmissionResponse.warnings; apiserver pkg/endpoints/filters/warning.go.
    """
    kept: dict[str, None] = {}
    left_out = 0
    room = _MOST - LONGEST
    for text in dict.fromkeys(map(printable, texts)):
        for line in _lines(text, kept):
            room -= len(line)
            if room < 0 or line in kept:
                left_out += 1
            else:
                kept[line] = None
    if not left_out:
        return tuple(kept)
    count = "1 more line does" if left_out == 1 else f"{left_out} more lines do"
    return (*kept, f"{count} not fit; gpu-admission review shows them all")


def _lines(text: str, taken: Collection[str]) -> list[str]:
    """The text in lines that are not taken; the API server drops repeated warnings, so they are indented."""
    for indent in range(0, LONGEST // 2, 2):
        lines = wrap(
            text,
            LONGEST,
            initial_indent=" " * indent,
            subsequent_indent=" " * (indent + 2),
            break_on_hyphens=False,
        )
        if not any(line in taken for line in lines):
            break
    return lines
