"""What the API server says of a wrong field, in its words.

Source: k8s.io/apimachinery pkg/util/validation/field/errors.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.kubernetes.printable import shown

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["REQUIRED", "duplicate", "forbidden", "invalid", "too_long", "too_many", "unsupported"]

REQUIRED = "Required value"


def invalid(value: Any, why: str) -> str:
    """A value that is not allowed, and why."""
    return f"Invalid value: {shown(value)}: {why}"


def unsupported(value: str, known: Iterable[str]) -> str:
    """A value that is none of those there are."""
    return f"Unsupported value: {shown(value)}: supported values: {', '.join(map(shown, sorted(known)))}"


def duplicate(value: str) -> str:
    """A value that was there before."""
    return f"Duplicate value: {shown(value)}"


def forbidden(why: str) -> str:
    """A field that must not be set like this."""
    return f"Forbidden: {why}"


def too_many(count: int, most: int) -> str:
    """A list with too many items."""
    return f"Too many: {count}: must have at most {most} items"


def too_long(most: int) -> str:
    """A text with too many bytes."""
    return f"Too long: may not be more than {most} bytes"
