"""`gpu-admission.io/product`: which products are wanted, and which are not."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from policies.caches import remember_short
from policies.kubernetes.printable import shown
from policies.nvidia.product_globs import fold_name, is_within, matching_texts, spellings
from policies.nvidia.wishes.errors import WishError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from policies.nvidia.mig import MIGProfile

__all__ = ["MOST_PATTERNS", "ProductPatterns", "product_spellings"]

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
    """What patterns that include are matched with, folded; see `ProductPatterns.admits`.

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
        raise _nameless(entry)
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


def _nameless(entry: str) -> WishError:
    if entry:
        return WishError('has a "!" without a name after it', 'write a name after it, as in "!*MIG*", or remove it')
    return WishError("has a comma without a name beside it", "write a name there, or remove the comma")


def _distinct(patterns: Iterable[str]) -> tuple[str, ...]:
    """The patterns without those that differ from an earlier one in case only."""
    by_folded: dict[str, str] = {}
    for pattern in patterns:
        by_folded.setdefault(fold_name(pattern), pattern)
    return tuple(by_folded.values())
