"""Drawings: SVG files of texts and rectangles that are readable on light and dark pages.

Text can be selected, and the same facts always give the same bytes. Colours follow `prefers-color-scheme`. A page may be
dark while the system is light, and the other way round, so each colour keeps a contrast of at least 3 on both.
"""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING, NamedTuple

from markupsafe import Markup

from policies.kubernetes.printable import printable
from webhook.pages.rendering import asset, render_part

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["LINE", "Drawing", "lines_of"]

LINE = 18
"""The height of a line of text."""
_CHARACTER = 7.0
"""The width of a character: a little more than the average, so that lines do not run out of their column."""


class DrawnShape(NamedTuple):
    """A text, or a rectangle if the text is empty."""

    left: int
    top: int
    """The baseline of a text, or the top of a rectangle."""
    kind: str
    """The classes of the shape in `picture.css`."""
    text: str = ""
    is_centred: bool = False
    width: int = 0
    height: int = 0
    title: str = ""
    """What a pointer over a rectangle shows."""


class Drawing:
    """Collects shapes."""

    def __init__(self, width: int) -> None:
        """Start an empty drawing of a width in pixels."""
        self.width = width
        self.shapes: list[DrawnShape] = []

    def write(self, left: int, top: int, lines: Iterable[str], kind: str = "text") -> int:
        """Write lines below each other, beginning at `top`; returns the top of what follows."""
        for line in lines:
            if line:
                self.shapes.append(DrawnShape(left, top + 13, kind, line))
            top += LINE
        return top

    def box(self, left: int, top: int, width: int, height: int, kind: str, *, sign: str = "", title: str = "") -> None:
        """Draw a rectangle with a sign in its middle."""
        self.shapes.append(DrawnShape(left, top, kind, width=width, height=height, title=title))
        if sign:
            self.shapes.append(DrawnShape(left + width // 2, top + height // 2 + 5, "sign", sign, is_centred=True))

    def render(self, title: str, description: str, height: int) -> str:
        """The drawing as a file; title and description are for screen readers."""
        return render_part(
            "drawing",
            title=title,
            description=description,
            width=self.width,
            height=height,
            shapes=self.shapes,
            style=Markup(asset("picture.css")),  # noqa: S704 - a file of this package
        )


def lines_of(text: str, width: int, most: int) -> list[str]:
    """A text in lines that are at most so many pixels wide; the last of too many lines ends with dots."""
    return wrap(printable(text), max(10, int(width / _CHARACTER)), max_lines=most, placeholder=" ...")
