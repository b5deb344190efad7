"""Globs in the selectors of limits: how those of products, MIG profiles and PriorityClasses are read.

They are those of wishes: `*` is any text and `?` one character, the brand may be left out, and the case of products and
profiles does not matter.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING, Any

from policies.kubernetes.bounds import remember_short
from policies.kubernetes.names import shown
from policies.nvidia.identifiers import VENDOR_PREFIX
from policies.nvidia.mig import MIGProfile
from policies.nvidia.products import BRAND, any_matches, fold_name, matching_texts
from policies.quota.limits.amounts import quoted_value
from policies.rules.checks import Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from policies.kubernetes.objects import FieldPath
    from policies.rules.charges import DeviceKind


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
    mismatch: Callable[[str], tuple[str, str] | None]
    """The reason why a glob with allowed characters matches nothing, and the remedy; None if it may match."""

    def problems(self, path: FieldPath, value: Any) -> Iterator[Problem]:
        """The problem of a glob, if it has one."""
        if not isinstance(value, str):
            yield Problem(path, f"is {quoted_value(value)}", f"write text such as {shown(self.example)}")
        elif not self.allowed.fullmatch(value):
            remedy = f"write a name such as {shown(self.example)}, with * for any text and ? for one character"
            yield Problem(path, f"is {shown(value)}", remedy)
        elif found := self.mismatch(value):
            why, remedy = found
            yield Problem(path, f"is {shown(value)}, {why}", remedy)


def _product(text: str) -> str:
    return _STARS.sub("*", _BRANDS.sub("", fold_name(text)))


def _product_mismatch(text: str) -> tuple[str, str] | None:
    if not _product(text):
        return "which is the brand without a product", 'write a product such as "H100*"'
    if "shared" in fold_name(text):
        return "but a product's name does not contain its sharing", "write it without -SHARED"
    if _MIG in fold_name(text):
        return "but a product's name does not contain MIG", 'write the profile under profiles, such as "1g.10gb"'
    return None


def _profile(text: str) -> str:
    return _STARS.sub("*", fold_name(text))


def _profile_mismatch(text: str) -> tuple[str, str] | None:
    name = _profile(text)
    if name.startswith((VENDOR_PREFIX, _MIG)):
        bare = name.removeprefix(VENDOR_PREFIX).removeprefix(_MIG)
        return "which is the name of a resource", f"write {shown(bare)}"
    if not {"*", "?"} & set(name) and MIGProfile.parse(name) is None and MIGProfile.from_label(name) is None:
        return "which is not a MIG profile", 'write one such as "1g.10gb" or "1g.*"'
    return None


GLOBS: Mapping[str, Globs] = {
    "products": Globs("NVIDIA-H100-*", re.compile(r"[A-Za-z0-9_.*? -]{1,63}"), _product, _product_mismatch),
    "profiles": Globs("1g.*", re.compile(r"[A-Za-z0-9_.,+*?/-]{1,63}"), _profile, _profile_mismatch),
    "priorityClasses": Globs("batch", re.compile(r"[a-z0-9.*?-]{1,253}"), partial(_STARS.sub, "*"), lambda _: None),
}
"""By the fields of a selector."""


class Match(Enum):
    """The answer to whether a limit counts a device."""

    YES = "yes"
    PERHAPS = "perhaps"
    """It depends on what is not known: the product, or which pod it is for."""
    NO = "no"


@dataclass(frozen=True, slots=True)
class Selector:
    """The devices that a limit counts: they match a glob of each list. An empty list matches every device."""

    products: tuple[str, ...] = ()
    """Globs of products as labels spell them, in lower case and without `nvidia-`; they match with and without it."""
    profiles: tuple[str, ...] = ()
    """Globs of MIG profiles in lower case, as NVML spells them (`1g.10gb+me`) or as resources do (`1g.10gb.me`). Whole
    GPUs have no profile, so none of them matches."""
    priority_classes: tuple[str, ...] = ()
    """Globs of the names of pods' PriorityClasses. A pod without one has the empty name, which only `*` matches."""

    def match(self, kind: DeviceKind, priority_class: str | None) -> Match:
        """The match with the device of a pod with this PriorityClass; None if the pod is not known."""
        if (
            (self.profiles and not _any_profile(self.profiles, kind.profile))
            or (self.products and kind.product and not _any_product(self.products, kind.product))
            or (self.priority_classes and priority_class is not None and not self._has_class(priority_class))
        ):
            return Match.NO
        is_open = (self.products and not kind.product) or (self.priority_classes and priority_class is None)
        return Match.PERHAPS if is_open else Match.YES

    def _has_class(self, name: str) -> bool:
        return any(fnmatchcase(name, glob) for glob in self.priority_classes)


EVERYTHING = Selector()
"""Leaves nothing out."""


# Every pod is matched, and there are few products.
@remember_short(8192)
def _any_product(globs: tuple[str, ...], product: str) -> bool:
    return any_matches(globs, fold_name(product))


@remember_short(8192)
def _any_profile(globs: tuple[str, ...], profile: str) -> bool:
    name = fold_name(profile)
    return bool(name) and any(matching_texts(glob, (name, name.replace("+", "."))) for glob in globs)
