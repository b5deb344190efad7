"""Forms of a review, one module each: `show(review, style)` prints what the form has of a review."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["FORMS", "PROBLEM_FORMS", "Style"]

FORMS = ("text", "json", "yaml", "patch", "junit", "sarif", "github")
"""The names of the forms, and of their modules."""

PROBLEM_FORMS = ("junit", "sarif", "github")
"""Those that show input that cannot be read beside the findings; for the others it is printed last."""


@dataclass(frozen=True, slots=True)
class Style:
    """How much text for people shows; other forms are always complete."""

    is_quiet: bool = False
    """True to leave out objects without a problem."""
    with_diffs: bool = True
    """True to show how objects are changed."""
