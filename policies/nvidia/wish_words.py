"""Words of wishes: bounds, choices and product patterns, read from the text of an annotation."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import ceil, floor
from typing import TYPE_CHECKING, Literal, get_args

from policies.kubernetes.bounds import remember_short
from policies.kubernetes.names import closest, shown
from policies.kubernetes.quantities import QuantityError, parse_quantity
from policies.nvidia.products import DriverVersion, fold_name, is_within, matching_texts, spellings

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable
    from fractions import Fraction

    from policies.nvidia.mig import MIGProfile


class WishError(ValueError):
    """A text that cannot be read as a wish; the error's text says why, as a clause without a full stop."""

    def __init__(self, problem: str, remedy: str) -> None:
        """Keep the problem, which continues the name of the annotation, and the remedy, an imperative."""
        super().__init__(problem)
        self.remedy = remedy


_Unit = Literal["G", "Gi"]
_MEBI = 1024**2
_MOST = 2**50
_EXAMPLE = 'write one such as "40Gi"'

_NEARLY = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?) *([MGT])(i?)B?", re.IGNORECASE | re.ASCII)
_DIGITS = re.compile(r"[0-9]{1,9}")
_LABEL_LIKE = 1024
"""A bare number from here on was probably meant in MiB, as `nvidia.com/gpu.memory` has it, and a smaller one in gigabytes."""


def read_least_memory(text: str) -> int:
    """Read a lower bound, in MiB rounded up: a label of at least it means as many bytes.

    GPUs have less than the gigabytes that they are sold with: an H100 of 80 GB has 81559 MiB, which is 79.6Gi or 85G.

    Raises:
        WishError: it is no quantity, or none that a GPU can have.
    """
    return ceil(_bytes(text, "G") / _MEBI)


def read_most_memory(text: str) -> int:
    """Read an upper bound, in MiB rounded down: a label of at most it means fewer bytes than one MiB more.

    Raises:
        WishError: it is no quantity, or none that a GPU can have.
    """
    return floor(_bytes(text, "Gi") / _MEBI)


def as_sold(text: str) -> str | None:
    """A lower bound in gigabytes instead of gibibytes, `80G` for `80Gi`; None if it has another unit.

    GPUs are sold by the gigabyte, and have less than as many gibibytes; see `read_least_memory`.
    """
    gibibytes, rest = divmod(read_least_memory(text), 1024)
    return f"{gibibytes}G" if text.endswith("i") and not rest else None


def _bytes(text: str, sold: _Unit) -> Fraction:
    """The bytes that a text says.

    Args:
        text: of the wish.
        sold: the unit of a bound that GPUs meet which are sold with so many gigabytes: they have more than as many `G`,
            and less than as many `Gi`.
    """
    try:
        amount = parse_quantity(text)
    except QuantityError:
        raise WishError(f"is {shown(text)}, which is not a Kubernetes quantity", _remedy(text, sold)) from None
    if amount <= 0:
        raise WishError(f"is {shown(text)}, which is not above zero", f"remove it, or {_EXAMPLE}")
    if amount < _MEBI:
        said = f"{text} bytes" if _DIGITS.fullmatch(text) else "less than 1Mi"
        raise WishError(f"is {shown(text)}, which is {said}", _remedy(text, sold))
    if amount > _MOST:
        raise WishError(f"is {shown(text)}, which is more memory than any GPU has", _EXAMPLE)
    return amount


def _remedy(text: str, sold: _Unit) -> str:
    guess = _similar_amount(text, sold)
    return f'write "{guess}"' if guess is not None and _MEBI <= parse_quantity(guess) <= _MOST else _EXAMPLE


def _similar_amount(text: str, sold: _Unit) -> str | None:
    if _DIGITS.fullmatch(text):
        return f"{text}{sold if int(text) < _LABEL_LIKE else 'Mi'}"
    match = _NEARLY.fullmatch(text)
    if match is None:
        return None
    number, letter, binary = match.groups()
    if letter.upper() == "G" and number.isdecimal():
        return f"{number}{sold}"
    return f"{number}{letter.upper()}{'i' if binary else ''}"


_PAIR = re.compile(r"([0-9]{1,2})(?:\.([0-9]{1,2}))?", re.ASCII)
_NUMBERS = re.compile(r"[0-9]+(?:\.[0-9]+)*", re.ASCII)
_NO_DOT = re.compile(r"([0-9]{1,2})([0-9])", re.ASCII)
_HIGHEST_CAPABILITY = 29
"""Beyond it a dot is missing: `86`, `sm_90`. Rubin has 13."""
_OLDEST_DRIVER = 300


def read_compute_capability(text: str) -> tuple[int, int]:
    """Read `8.6`, or `9` for 9.0.

    Raises:
        WishError: it is neither.
    """
    version = _capability(text)
    if version is not None:
        return version
    guess = _version_within(text, 2, _capability) or _with_dot(text)
    raise WishError(
        f"is {shown(text)}, which is not a compute capability",
        f'write "{guess}"' if guess else 'write one such as "8.6" or "9"',
    )


def read_cuda(text: str) -> tuple[int, int]:
    """Read `12.4`, or `13` for 13.0.

    Raises:
        WishError: it is neither.
    """
    version = _pair(text)
    if version is not None:
        return version
    guess = _version_within(text, 2, _pair)
    remedy = f'write "{guess}"' if guess else 'write one such as "12.4"'
    if not guess and _driver(text):
        remedy += f', or gpu-admission.io/min-driver: "{text}"'
    raise WishError(f"is {shown(text)}, which is not a version of CUDA", remedy)


def read_driver(text: str) -> tuple[int, int, int]:
    """Read `580.95.05`, or its beginning: `580`, `580.95`.

    Raises:
        WishError: the text is not such a version.
    """
    version = _driver(text)
    if version is not None:
        return version
    guess = _version_within(text, 3, _driver)
    remedy = f'write "{guess}"' if guess else 'write one such as "580.95"'
    if not guess and _pair(text):
        remedy += f', or gpu-admission.io/min-cuda: "{text}"'
    raise WishError(f"is {shown(text)}, which is not a driver version", remedy)


def pair_text(version: tuple[int, int]) -> str:
    """A compute capability or a version of CUDA: `9.0`."""
    return "{}.{}".format(*version)


def driver_text(version: tuple[int, int, int]) -> str:
    """A driver version as NVIDIA writes it, without zeros at the end: `580.95.05`, `580.95`, `580`."""
    branch, minor, patch = version
    return f"{branch}.{minor:02}.{patch:02}".removesuffix(".00").removesuffix(".00")


def _pair(text: str) -> tuple[int, int] | None:
    match = _PAIR.fullmatch(text)
    return (int(match.group(1)), int(match.group(2) or 0)) if match else None


def _capability(text: str) -> tuple[int, int] | None:
    version = _pair(text)
    return version if version and version[0] <= _HIGHEST_CAPABILITY else None


def _driver(text: str) -> tuple[int, int, int] | None:
    version = DriverVersion.parse(text)
    if version is None or version.branch < _OLDEST_DRIVER:
        return None
    branch, minor, patch = (*version.numbers, 0, 0)[:3]
    return branch, minor, patch


def _version_within(text: str, length: int, read: Callable[[str], tuple[int, ...] | None]) -> str | None:
    """The version that stands somewhere in a text: `8.6` in `>=8.6`, `12.4` in `12.4.1`."""
    found = _NUMBERS.search(text.replace(",", "."))
    guess = ".".join(found.group().split(".")[:length]) if found else ""
    return guess if guess != text and read(guess) else None


def _with_dot(text: str) -> str | None:
    """The compute capability that stands in a text without its dot: `8.6` in `sm_86`."""
    found = _NUMBERS.search(text)
    digits = _NO_DOT.fullmatch(found.group()) if found else None
    guess = f"{digits.group(1)}.{digits.group(2)}" if digits else ""
    return guess if _capability(guess) else None


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


NIC = Literal["aligned"]


def read_nic(text: str) -> NIC:
    """Read `aligned`, the only choice; case does not matter.

    Raises:
        WishError: the text is something else.
    """
    if text.lower() == "aligned":
        return "aligned"
    raise WishError(f'is {shown(text)}, which is not "aligned"', 'write "aligned"')


MOST_PATTERNS = 20
"""More would make expressions that Kubernetes finds too long or too costly."""
_LONGEST_PATTERN = 63
"""In characters, as the value of a label."""

_ALLOWED = re.compile(r"[A-Za-z0-9_.*?-]+")
_BLANKS = re.compile(r" +")
_BRAND = re.compile(r"(?:NVIDIA-)+", re.IGNORECASE)
_STARS = re.compile(r"\*{2,}")
_SHARED = "shared"
_REMEDIES = {
    "|": "write a comma between names",
    ";": "write a comma between names",
    "/": "write a comma between names",
    "\n": "write a comma between names",
    "!": 'write a comma before "!"',
    "+": 'write "." for "+", as labels do',
    '"': "remove the quotes inside the text",
    "'": "remove the quotes inside the text",
}
_NO_EXPRESSION = "write * for any characters and ? for one; regular expressions are not read"


@dataclass(frozen=True, slots=True)
class ProductPatterns:
    """Globs of product names as labels spell them, without `NVIDIA-`; case does not matter."""

    includes: tuple[str, ...] = ()
    """Some of these; every product where there are none."""
    excludes: tuple[str, ...] = ()
    """None of these."""

    @classmethod
    def read(cls, text: str) -> ProductPatterns:
        """Read `H100*, A100-80GB*, !*MIG*`.

        Raises:
            WishError: it is not such a list, or longer than a selector of devices can be.
        """
        entries = [entry.strip() for entry in text.split(",")]
        if len(entries) > MOST_PATTERNS:
            raise WishError(
                f"has {len(entries)} names; the most is {MOST_PATTERNS}",
                'name several products at once with * and ?, as in "H100*"',
            )
        includes = [_pattern(entry, entry) for entry in entries if not entry.startswith("!")]
        excludes = [_pattern(entry[1:], entry) for entry in entries if entry.startswith("!")]
        return cls(_distinct(includes), _distinct(excludes))

    def __str__(self) -> str:
        return ",".join([*self.includes, *(f"!{pattern}" for pattern in self.excludes)])

    def admits(self, product: str, profile: MIGProfile | None = None, *, by_profile: bool = False) -> bool:
        """True if a GPU or MIG device is wanted.

        Args:
            product: as labels spell it, without `-SHARED`: `NVIDIA-A100-SXM4-40GB`.
            profile: of a MIG device; its name is then that of the label, `NVIDIA-A100-SXM4-40GB-MIG-1g.5gb`.
            by_profile: whether the pod requests the MIG device by its profile, as `nvidia.com/mig-1g.5gb`. Then a
                pattern can also match the name of the GPU alone; one that excludes always can.
        """
        wanted = not self.includes or _match(self.includes, product_spellings(product, profile, by_profile=by_profile))
        return wanted and not _match(self.excludes, product_spellings(product, profile, by_profile=True))

    def cancelled_patterns(self) -> dict[str, str]:
        """Each including pattern with the pattern that excludes all of it; empty if some product is left.

        Without any including pattern, `*` stands for it.
        """
        includes = self.includes or ("*",)
        taken = {
            include: exclude
            for include in includes
            for exclude in reversed(self.excludes)
            if is_within(fold_name(include), fold_name(exclude))
        }
        return taken if len(taken) == len(includes) else {}


@remember_short(8192)
def product_spellings(product: str, profile: MIGProfile | None = None, *, by_profile: bool = False) -> tuple[str, ...]:
    """The texts that including patterns are matched with, folded; see `ProductPatterns.admits`.

    Remembered, because the patterns of every wish are matched with all products that there are.
    """
    full = fold_name(f"{product}-MIG-{profile.label}" if profile else product)
    names = (fold_name(product), full) if by_profile else (full,)
    return tuple(dict.fromkeys(text for name in names for text in spellings(name)))


def _match(patterns: Iterable[str], texts: Collection[str]) -> bool:
    return any(matching_texts(fold_name(pattern), texts) for pattern in patterns)


def _pattern(name: str, entry: str) -> str:
    """A pattern in its canonical form, from a name that stands in an entry of the list."""
    if not name.strip():
        if entry:
            raise WishError('has a "!" without a name after it', 'write a name after it, as in "!*MIG*", or remove it')
        raise WishError("has a comma without a name beside it", "write a name there, or remove the comma")
    dashed = _BLANKS.sub("-", name.strip())
    _check(dashed, entry)
    brand = _BRAND.match(dashed)
    pattern = _STARS.sub("*", dashed[brand.end() :] if brand else dashed)
    if not pattern:
        raise WishError(
            f"has the name {shown(entry)}, which is the brand without a product",
            'write a product such as "H100*"',
        )
    if len(pattern) > _LONGEST_PATTERN:
        raise WishError(
            f"has a name of {len(pattern)} characters; the most is {_LONGEST_PATTERN}, as in labels",
            "shorten it with *",
        )
    return pattern


def _check(dashed: str, entry: str) -> None:
    """Refuse what is in no product name."""
    if not _ALLOWED.fullmatch(dashed):
        wrong = next(character for character in dashed if not _ALLOWED.match(character))
        raise WishError(
            f"has the name {shown(entry)}, and {shown(wrong)} is in no product name",
            _REMEDIES.get(wrong, _NO_EXPRESSION),
        )
    if _SHARED in fold_name(dashed):
        raise WishError(
            f"has the name {shown(entry)}, and sharing is not part of a product name",
            'remove it, and write gpu-admission.io/sharing: "exclusive"'
            if entry.startswith("!")
            else 'write it without -SHARED, and gpu-admission.io/sharing: "shared"',
        )


def _distinct(patterns: Iterable[str]) -> tuple[str, ...]:
    """The patterns without those that differ from an earlier one in case only."""
    by_folded: dict[str, str] = {}
    for pattern in patterns:
        by_folded.setdefault(fold_name(pattern), pattern)
    return tuple(by_folded.values())
