"""What Go allows a regular expression to come to: copies of one thing, levels of nesting, and size.

Source: Go 1.26 regexp/syntax/parse.go, repeatIsValid, calcHeight and calcSize. Go looks at a tree whose alternatives it
has factored; ours is not, and may be called too large where Go's is a little smaller.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["LARGEST_HEIGHT", "LARGEST_REPEAT", "LARGEST_SIZE", "Level", "Part"]

LARGEST_REPEAT = 1000
LARGEST_HEIGHT = 1000
LARGEST_SIZE = (128 << 20) // 40
"""Instructions of 40 bytes in 128 MiB."""


@dataclass(slots=True)
class Part:
    """What a part of a pattern comes to."""

    size: int = 1
    height: int = 1
    copies: int = 1
    """How often the most repeated thing in it is repeated."""
    is_literal: bool = False

    def enclosed(self) -> Part:
        """In a group that captures, or with `*`, `+` or `?` behind it."""
        return Part(self.size + 2, self.height + 1, self.copies)

    def repeated(self, least: int, most: int | None) -> Part:
        """So many times, or without an end."""
        if most is None:
            size = 1 + least * self.size if least else 2 + self.size
            copies = max(least, 1) * self.copies
        else:
            size = most * self.size + most - least
            copies = most * self.copies
        return Part(max(1, size), self.height + 1, max(1, copies))


class Level:
    """What has been read between two brackets, or from a bracket on."""

    def __init__(self, *, captures: bool) -> None:
        """Args: whether it is the inside of a group that captures."""
        self.captures = captures
        self.parts: list[Part] = []
        """Since the last `|`."""
        self._alternatives: list[Part] = []

    def push(self, part: Part) -> None:
        """Add a part; literals grow together once nothing can repeat the last of them."""
        parts = self.parts
        if len(parts) > 1 and parts[-1].is_literal and parts[-2].is_literal:
            parts[-2].size += parts.pop().size
        parts.append(part)

    def end_alternative(self) -> None:
        """Begin anew behind a `|`."""
        self._alternatives.append(_together(self.parts, extra=0))
        self.parts = []

    def whole(self) -> Part:
        """All of it as one part."""
        self.end_alternative()
        return _together(self._alternatives, extra=len(self._alternatives) - 1)


def _together(parts: list[Part], extra: int) -> Part:
    if len(parts) == 1:
        return parts[0]
    return Part(
        size=max(1, sum(part.size for part in parts) + extra),
        height=1 + max((part.height for part in parts), default=0),
        copies=max((part.copies for part in parts), default=1),
    )
