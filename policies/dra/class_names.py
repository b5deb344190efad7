"""Names of DeviceClasses that do not exist: which one was meant, or which others there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.kubernetes.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["class_meant", "other_classes"]

_MOST_EDITS = 2
_LONGEST = 253
"""A longer name is no name of a class."""
_LISTED = 5
_INTERNAL = "compute-domain-"
"""How NVIDIA's classes begin that ComputeDomains ask for, and people do not."""


def class_meant(name: str, known: Iterable[str]) -> str | None:
    """The class that was probably meant: one that differs by a slip, of the same vendor.

    The domain counts apart: `gpu.amd.com` is no slip for `gpu.nvidia.com`.
    """
    near = [(edits, each) for each in known if (edits := _edits_between(name, each)) is not None]
    return min(near)[1] if near else None


def other_classes(known: Iterable[str]) -> str:
    """What to do where no class is near: a remedy."""
    install = "install the driver that brings it"
    names = sorted(printable(name) for name in known if not name.startswith(_INTERNAL))
    if not names:
        return install
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return f"{install}, or write the name of a class that exists: {', '.join(names[:_LISTED])}{more}"


def _edits_between(name: str, known: str) -> int | None:
    """How many slips make one name of the other; None for too many."""
    if max(len(name), len(known)) > _LONGEST:
        return None
    (own, _, domain), (known_own, _, known_domain) = name.lower().partition("."), known.lower().partition(".")
    slips = _slips(own, known_own, most=len(known_own) // 3)
    # A short domain that differs is another vendor's.
    more = _slips(domain, known_domain, most=len(known_domain) // 5)
    if slips is None or more is None or slips + more > _MOST_EDITS:
        return None
    return slips + more


def _slips(text: str, known: str, most: int) -> int | None:
    """Letters too many, too few, wrong or swapped; None for more than `most` or than anybody makes."""
    if text == known:
        return 0
    if abs(len(text) - len(known)) > min(most, _MOST_EDITS):
        return None
    before: list[int] = []
    row = list(range(len(known) + 1))
    for index, letter in enumerate(text):
        earlier, before, row = before, row, [index + 1]
        for place, other in enumerate(known):
            least = min(before[place + 1] + 1, row[place] + 1, before[place] + (letter != other))
            swapped = index and place and letter == known[place - 1] and other == text[index - 1]
            row.append(min(least, earlier[place - 1] + 1) if swapped else least)
    return row[-1] if row[-1] <= min(most, _MOST_EDITS) else None
