"""Products: the label `nvidia.com/gpu.product`, globs such as `H100*`, and versions of their drivers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import filter as _matching
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from policies.kubernetes.bounds import remember_short
from policies.nvidia.identifiers import FAMILY_LABEL, PRODUCT_LABEL
from policies.nvidia.mig import MIGProfile

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping


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
"""The prefix that drivers since R470 put before most names; globs are written without it and match names with and without it."""

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
    """The texts of a folded name that a glob can match: all of it, and the part after `nvidia-`."""
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


_VERSION = re.compile(r"[0-9]{3,4}(\.[0-9]{1,4}){0,2}")

_FIRST_WITH_AUTO = (570, 86, 15)
_ALL_WITH_AUTO = (570, 124, 6)
_PENDING_FULL_GPUS = {(570, 124, 6), (570, 133, 20), (570, 148, 8), (570, 158, 1)}

_OLD_FAMILIES = {"kepler", "maxwell", "pascal", "volta"}
_OPEN_FAMILIES = {"blackwell", "rubin"}
_GRACE = re.compile(r"G[HB](200|300)(-|$)")


@dataclass(frozen=True, slots=True, order=True)
class DriverVersion:
    """A version of the NVIDIA driver: `580` is a branch, `580.65.06` a full version."""

    numbers: tuple[int, ...]

    @classmethod
    def parse(cls, text: str) -> DriverVersion | None:
        """Read a version; None for digests, tags with a suffix and other text."""
        return cls(tuple(map(int, text.split(".")))) if _VERSION.fullmatch(text) else None

    @property
    def is_branch(self) -> bool:
        """True if only the branch is given."""
        return len(self.numbers) == 1

    @property
    def branch(self) -> int:
        """The release branch, 580."""
        return self.numbers[0]

    def is_below(self, *least: int) -> bool:
        """True if it is certainly older. A branch is not older than a version of the branch."""
        return self.numbers < least[: len(self.numbers)]

    @property
    def knows_auto(self) -> bool:
        """True if its container chooses between open and proprietary modules by itself.

        Source: docs.nvidia.com GPU Operator, getting started: "570.86.15 and 570.124.06 or later driver containers".
        """
        return self.numbers == _FIRST_WITH_AUTO or not self.is_below(*_ALL_WITH_AUTO)

    @property
    def leaves_full_gpus_pending(self) -> bool:
        """True if pods that request whole GPUs stay pending on nodes that have MIG devices too.

        Source: github.com/NVIDIA/gpu-operator issues 1361, release notes of GPU Operator 25.3.
        """
        return self.numbers in _PENDING_FULL_GPUS


@dataclass(frozen=True, slots=True)
class Need:
    """The oldest driver that knows a GPU."""

    gpu: str
    """The name of the GPU in messages."""
    version: tuple[int, ...]

    def __str__(self) -> str:
        branch, *rest = self.version
        return ".".join([str(branch), *(f"{number:02}" for number in rest)])


_PRODUCT_NEEDS = (
    (re.compile(r"(.*-)?B200(-.*)?"), Need("HGX B200", (570, 133, 20))),
    (re.compile(r"RTX-PRO-6000(-.*)?"), Need("RTX PRO 6000", (575, 57, 8))),
    (re.compile(r"H200(-.*)?"), Need("H200", (550,))),
)
_FAMILY_NEEDS = {"blackwell": Need("Blackwell", (570,)), "hopper": Need("Hopper", (525,))}


def driver_needs(labels: Mapping[str, str]) -> Need | None:
    """The oldest driver for the GPUs of a node, by its labels; None if every supported driver works.

    Source: docs.nvidia.com GPU Operator, platform support; the branches of whole families are those that their first
    GPUs were released with.
    """
    product = _product(labels)
    named = next((need for pattern, need in _PRODUCT_NEEDS if pattern.fullmatch(product)), None)
    return named or _FAMILY_NEEDS.get(_family(labels))


def needs_proprietary_modules(labels: Mapping[str, str]) -> bool:
    """True if a node's GPUs are older than Turing, which the open kernel modules begin with."""
    return _family(labels) in _OLD_FAMILIES


def needs_open_modules(labels: Mapping[str, str]) -> bool:
    """True if a node's GPUs need the open kernel modules: Blackwell and later, and those of Grace."""
    return _family(labels) in _OPEN_FAMILIES or _GRACE.match(_product(labels)) is not None


def _family(labels: Mapping[str, str]) -> str:
    return labels.get(FAMILY_LABEL, "")


def _product(labels: Mapping[str, str]) -> str:
    return Product.parse(labels.get(PRODUCT_LABEL, "")).name.removeprefix("NVIDIA-")
