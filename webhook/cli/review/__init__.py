"""Formats of a review: a function of `(review, options)` prints a review in each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

__all__ = ["FORMATS", "PROBLEM_FORMATS", "Format", "TextOptions"]

Format = Literal["text", "json", "yaml", "patch", "junit", "sarif", "github", "gitlab"]
FORMATS: tuple[Format, ...] = get_args(Format)
"""The names of the formats."""

PROBLEM_FORMATS = ("junit", "sarif", "github", "gitlab")
"""Those that show input that cannot be read beside the findings; for the others it is printed last."""


@dataclass(frozen=True, slots=True)
class TextOptions:
    """The parts that text for people shows; other formats are always complete."""

    is_quiet: bool = False
    """True to leave out objects without a problem."""
    with_diffs: bool = True
    """True to show how objects are changed."""
