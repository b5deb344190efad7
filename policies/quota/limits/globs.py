"""Globs in the selectors of limits: how those of products, MIG profiles and PriorityClasses are read.

They are those of wishes: `*` is any text and `?` one character, the brand may be left out, and the case of products and
profiles does not matter.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from policies.kubernetes.printable import shown
from policies.nvidia.identifiers import VENDOR_PREFIX
from policies.nvidia.mig import MIGProfile
from policies.nvidia.product_globs import BRAND, fold_name
from policies.quota.limits.amounts import quoted_value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["GLOBS", "Globs"]

_BRANDS = re.compile(rf"^(?:{BRAND})+")
_STARS = re.compile(r"\*{2,}")
_MIG = "mig-"


@dataclass(frozen=True, slots=True)
class Globs:
    """One list of a selector."""

    example: str
    allowed: re.Pattern[str]
    """The characters of a glob, and how many there can be; deploy/base/api/gpuquotas.yaml has the same."""
    read: Callable[[str], str]
    """A glob in the form in which selectors match it."""
    mismatch: Callable[[str], str]
    """Why a glob with allowed characters matches nothing, and what to write; empty if it may match."""

    def problem(self, value: Any) -> str:
        """What is wrong with a glob, and what to write; empty where nothing is."""
        if not isinstance(value, str):
            return f"is {quoted_value(value)}; write text such as {shown(self.example)}"
        if not self.allowed.fullmatch(value):
            said = f"write a name such as {shown(self.example)}, with * for any text and ? for one character"
            return f"is {shown(value)}; {said}"
        said = self.mismatch(value)
        return f"is {shown(value)}, {said}" if said else ""


def _product(text: str) -> str:
    return _STARS.sub("*", _BRANDS.sub("", fold_name(text)))


def _product_mismatch(text: str) -> str:
    if not _product(text):
        return 'which is the brand without a product; write a product such as "H100*"'
    if "shared" in fold_name(text):
        return "but a product's name does not contain its sharing; write it without -SHARED"
    if _MIG in fold_name(text):
        return 'but a product\'s name does not contain MIG; write the profile under profiles, such as "1g.10gb"'
    return ""


def _profile(text: str) -> str:
    return _STARS.sub("*", fold_name(text))


def _profile_mismatch(text: str) -> str:
    name = _profile(text)
    if name.startswith((VENDOR_PREFIX, _MIG)):
        bare = name.removeprefix(VENDOR_PREFIX).removeprefix(_MIG)
        return f"which is the name of a resource; write the profile, {shown(bare)}"
    if not {"*", "?"} & set(name) and MIGProfile.parse(name) is None and MIGProfile.from_label(name) is None:
        return 'which is not a MIG profile; write one such as "1g.10gb" or "1g.*"'
    return ""


def _without_repeated_stars(text: str) -> str:
    return _STARS.sub("*", text)


def _no_mismatch(text: str) -> str:
    return ""


GLOBS: Mapping[str, Globs] = {
    "products": Globs("NVIDIA-H100-*", re.compile(r"[A-Za-z0-9_.*? -]{1,63}"), _product, _product_mismatch),
    "profiles": Globs("1g.*", re.compile(r"[A-Za-z0-9_.,+*?/-]{1,63}"), _profile, _profile_mismatch),
    "priorityClasses": Globs("batch", re.compile(r"[a-z0-9.*?-]{1,253}"), _without_repeated_stars, _no_mismatch),
}
"""By the fields of a selector."""
