"""Values and texts of objects as messages may show them.

Messages end in terminals and logs, and the author of an object chooses what they quote: a line break or a control
character in it must make no line of its own and move no cursor.
"""

from __future__ import annotations

import json
from typing import Any

__all__ = ["printable", "quote", "shown"]

_LONGEST = 80


def printable(text: str) -> str:
    """A text on one line: whatever cannot be printed is a blank."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else " " for character in text)


def shown(value: Any) -> str:
    """A value of an object as JSON on one line, cut where it is long."""
    text = json.dumps(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def quote(value: Any) -> str:
    """A scalar as JSON, with the letters of every language as they are."""
    return json.dumps(value, ensure_ascii=False)
