"""`gpu-admission.io/sharing`: whether other pods may use the GPU at the same time."""

from __future__ import annotations

from typing import Literal, get_args

from policies.kubernetes.misspellings import closest
from policies.kubernetes.printable import shown
from policies.nvidia.wishes.errors import WishError

__all__ = ["Sharing", "read_sharing"]

Sharing = Literal["exclusive", "shared", "any"]

_CHOICES: tuple[Sharing, ...] = get_args(Sharing)
_ALIASES: dict[str, Sharing] = {
    "none": "exclusive",
    "dedicated": "exclusive",
    "mps": "shared",
    "time-slicing": "shared",
    "timeslicing": "shared",
}


def read_sharing(text: str) -> Sharing:
    """Read one of the three; case does not matter.

    Raises:
        WishError: it is none of them.
    """
    lower = text.lower()
    for choice in _CHOICES:
        if choice == lower:
            return choice
    guess = _ALIASES.get(lower) or closest(lower, _CHOICES)
    raise WishError(
        f"is {shown(text)}, which is none of exclusive, shared and any",
        f'write "{guess}"' if guess else 'write "exclusive", "shared" or "any"',
    )
