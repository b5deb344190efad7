"""Product choices: the known GPUs that a name means, as people write it (`T4`, `H100`, `A100-80GB`)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

from policies.kubernetes.printable import shown
from policies.nvidia.known_products import KNOWN_PRODUCTS, ProductNames
from policies.nvidia.wishes import ProductPatterns, WishError

__all__ = ["ProductChoice", "choose_products"]


@dataclass(frozen=True, slots=True)
class ProductChoice:
    """Patterns of products, and the known products that they select."""

    patterns: ProductPatterns
    labels: tuple[str, ...]
    """Values of the label `nvidia.com/gpu.product`, without any suffix; at least one."""


def choose_products(text: str) -> ProductChoice:
    """The products that a text means: a list of patterns as in a wish, or names that have the same words.

    Raises:
        WishError: it is no such list, or a name in it matches no known product.
    """
    patterns = ProductPatterns.read(text)
    patterns = replace(patterns, includes=tuple(dict.fromkeys(_known_pattern(each) for each in patterns.includes)))
    labels = tuple(label for label in KNOWN_PRODUCTS if patterns.admits(label))
    if not labels:
        raise WishError(f"is {shown(text)}, which excludes every product that it names", "exclude fewer products")
    return ProductChoice(patterns, labels)


def _known_pattern(pattern: str) -> str:
    """A pattern that selects known products: the pattern itself, or one with all its words."""
    if any(ProductPatterns((pattern,)).admits(label) for label in KNOWN_PRODUCTS):
        return pattern
    if found := _names().with_words_of(pattern):
        return found
    near = _names().suggestion(pattern)
    remedy = (
        f'write "{near}"' if near else 'write the label nvidia.com/gpu.product of a known product, such as "Tesla-T4"'
    )
    raise WishError(f"names an unknown product {shown(pattern)}", remedy)


@cache
def _names() -> ProductNames:
    return ProductNames.of(KNOWN_PRODUCTS)
