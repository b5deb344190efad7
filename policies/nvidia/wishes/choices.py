"""Choices of wishes: `gpu-admission.io/family` and `gpu-admission.io/sharing`."""

from __future__ import annotations

from typing import Literal, get_args

from policies.kubernetes.misspellings import closest
from policies.kubernetes.printable import shown
from policies.nvidia.product_globs import fold_name
from policies.nvidia.wishes.errors import WishError

__all__ = ["FAMILIES", "Sharing", "read_families", "read_sharing"]

FAMILIES: dict[str, tuple[int, int] | None] = {
    "kepler": (4, 0),
    "maxwell": (6, 0),
    "pascal": (7, 0),
    "volta": (7, 5),
    "turing": (8, 0),
    "ampere": (8, 9),
    "ada-lovelace": (9, 0),
    "hopper": (10, 0),
    "blackwell": (13, 0),
    "rubin": None,
}
"""Each family with the compute capability that its GPUs stay below; None if it is not known yet.

Source: github.com/NVIDIA/k8s-device-plugin internal/lm/resource.go. It knows `tesla` and `fermi` too, which no driver
that Kubernetes can use supports.
"""

_FAMILY_ALIASES = {"ada": "ada-lovelace", "lovelace": "ada-lovelace", "adalovelace": "ada-lovelace"}


def read_families(text: str) -> tuple[str, ...]:
    """Read `hopper, ada-lovelace`; blanks stand for dashes, and case does not matter.

    Raises:
        WishError: a name is unknown.
    """
    return tuple(dict.fromkeys(_family(entry.strip()) for entry in text.split(",")))


def _family(entry: str) -> str:
    if not entry:
        raise WishError("has a comma without a name beside it", "write a name there, or remove the comma")
    if entry.startswith("!"):
        raise WishError(
            f"has {shown(entry)}, and families cannot be excluded",
            "write the families that are wanted, or exclude products by gpu-admission.io/product",
        )
    name = fold_name(" ".join(entry.split()))
    if name in FAMILIES:
        return name
    guess = _FAMILY_ALIASES.get(name) or closest(name, FAMILIES)
    raise WishError(
        f"has {shown(entry)}, which is not a GPU family",
        f'write "{guess}"' if guess else f"write some of {', '.join(FAMILIES)}, with commas between them",
    )


Sharing = Literal["exclusive", "shared", "any"]

_CHOICES: tuple[Sharing, ...] = get_args(Sharing)
_SHARING_ALIASES: dict[str, Sharing] = {
    "none": "exclusive",
    "dedicated": "exclusive",
    "mps": "shared",
    "time-slicing": "shared",
    "timeslicing": "shared",
}


def read_sharing(text: str) -> Sharing:
    """Read one of the three; case does not matter.

    Raises:
        WishError: the text is not one of them.
    """
    lower = text.lower()
    for choice in _CHOICES:
        if choice == lower:
            return choice
    guess = _SHARING_ALIASES.get(lower) or closest(lower, _CHOICES)
    raise WishError(
        f"is {shown(text)}, which is not one of exclusive, shared and any",
        f'write "{guess}"' if guess else 'write "exclusive", "shared" or "any"',
    )
