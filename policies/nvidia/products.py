"""Products: the label `nvidia.com/gpu.product`, and globs of names such as `H100*`."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import filter as _matching
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from policies.kubernetes.caches import remember_short
from policies.nvidia.mig import MIGProfile

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

__all__ = [
    "BRAND",
    "Product",
    "any_matches",
    "fold_name",
    "is_within",
    "lower_ascii",
    "matching_texts",
    "regular_expression",
    "spellings",
]


_SHARED = "-SHARED"
_MIG = "-MIG-"
_INVALID = "INVALID"


@dataclass(frozen=True, slots=True)
class Product:
    """A value of `nvidia.com/gpu.product` taken apart.

    Source: github.com/NVIDIA/k8s-device-plugin internal/lm (`<product>[-MIG-<profile>][-SHARED]`, and
    `<product>-MIG-INVALID` on nodes whose MIG devices differ under the single strategy).
    """

    name: str
    """The GPU's name as labels spell it: `NVIDIA-A100-SXM4-40GB`."""
    profile: MIGProfile | None = None
    """The MIG profile that the node hands out as `nvidia.com/gpu` (single strategy)."""
    shared: bool = False
    invalid: bool = False

    @staticmethod
    def parse(label: str) -> Product:
        """Take a label value apart; what is no suffix belongs to the name."""
        return _parse(label)


@remember_short(4096)
def _parse(label: str) -> Product:
    """Remembered, because every wish is compared with every product that there is."""
    base = label.removesuffix(_SHARED)
    shared = base != label
    name, separator, suffix = base.rpartition(_MIG)
    if separator and suffix == _INVALID:
        return Product(name, shared=shared, invalid=True)
    profile = MIGProfile.from_label(suffix) if separator else None
    return Product(name, profile, shared) if profile else Product(base, shared=shared)


BRAND = "nvidia-"
"""What drivers since R470 put before most names; globs are written without it and match names with and without it."""

_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_ANY = "\0"


def lower_ascii(text: str) -> str:
    """A text as CEL's `lowerAscii` leaves it."""
    return text.lower() if text.isascii() else text.translate(_LOWER)


def fold_name(name: str) -> str:
    """A name as globs are matched against: ASCII letters in lower case, dashes for blanks."""
    return lower_ascii(name).replace(" ", "-")


def any_matches(globs: Collection[str], name: str) -> bool:
    """True if some glob matches the whole name.

    Args:
        globs: in lower case and without `nvidia-`.
        name: folded.
    """
    return any(matching_texts(glob, spellings(name)) for glob in globs)


def matching_texts(glob: str, texts: Iterable[str]) -> list[str]:
    """Those of many spellings of names that a glob matches."""
    return _matching(texts, glob)


def spellings(name: str) -> tuple[str, ...]:
    """What of a folded name a glob can match: all of it, and what stands behind `nvidia-`."""
    bare = name.removeprefix(BRAND)
    return (name,) if bare == name else (name, bare)


def regular_expression(globs: Collection[str]) -> str:
    """A regular expression in the syntax of RE2 that matches exactly the names that `any_matches` accepts."""
    alternatives = (glob.replace(".", "[.]").replace("*", ".*").replace("?", ".") for glob in sorted(set(globs)))
    return f"(?s)^({BRAND})?({'|'.join(alternatives)})$"


def is_within(inner: str, outer: str) -> bool:
    """True if it is certain that `outer` matches every name that `inner` matches.

    The inner glob is matched as if it were a name: its `*` can be any text, so only a `*` of the outer one takes it in;
    its `?` is one character that no letter of the outer one is.
    """
    return fnmatchcase(inner.replace("*", _ANY), outer.replace("?", f"[!{_ANY}]"))
