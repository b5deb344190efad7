"""Values as messages show them."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["shown"]

_LONGEST = 80


def shown(value: Any) -> str:
    """A value of the pod for a message: on one line, without control characters, cut where it is long.

    Messages end in terminals and logs, and the pod's author writes the value: a line break in it must not make
    a line of its own.
    """
    text = json.dumps(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
