"""Known products: GPUs by the name in their label, and the product that a misspelt name means."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from policies.kubernetes.names import closest, shown
from policies.nvidia.mig_products import product_named
from policies.nvidia.products import Product, any_matches, fold_name
from policies.nvidia.wishes import ProductPatterns, WishError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


KNOWN_PRODUCTS: tuple[str, ...] = (
    "Tesla-P4",
    "Tesla-P40",
    "Tesla-P100-PCIE-16GB",
    "Tesla-P100-SXM2-16GB",
    "Tesla-V100-PCIE-16GB",
    "Tesla-V100-PCIE-32GB",
    "Tesla-V100-SXM2-16GB",
    "Tesla-V100-SXM2-32GB",
    "Tesla-V100-SXM3-32GB",
    "Tesla-V100S-PCIE-32GB",
    "Tesla-T4",
    "Quadro-RTX-6000",
    "Quadro-RTX-8000",
    "NVIDIA-A100-PCIE-40GB",
    "NVIDIA-A100-SXM4-40GB",
    "NVIDIA-A100-80GB-PCIe",
    "NVIDIA-A100-SXM4-80GB",
    "NVIDIA-A800-SXM4-80GB",
    "NVIDIA-A800-80GB-PCIe",
    "NVIDIA-A30",
    "NVIDIA-A2",
    "NVIDIA-A10",
    "NVIDIA-A10G",
    "NVIDIA-A16",
    "NVIDIA-A40",
    "NVIDIA-RTX-A4000",
    "NVIDIA-RTX-A4500",
    "NVIDIA-RTX-A5000",
    "NVIDIA-RTX-A6000",
    "NVIDIA-GeForce-RTX-3090",
    "NVIDIA-L4",
    "NVIDIA-L20",
    "NVIDIA-L40",
    "NVIDIA-L40S",
    "NVIDIA-RTX-4000-Ada-Generation",
    "NVIDIA-RTX-4000-SFF-Ada-Generation",
    "NVIDIA-RTX-4500-Ada-Generation",
    "NVIDIA-RTX-5000-Ada-Generation",
    "NVIDIA-RTX-6000-Ada-Generation",
    "NVIDIA-GeForce-RTX-4090",
    "NVIDIA-H100-PCIe",
    "NVIDIA-H100-80GB-HBM3",
    "NVIDIA-H100-NVL",
    "NVIDIA-H800",
    "NVIDIA-H20",
    "NVIDIA-H20-3e",
    "NVIDIA-H200",
    "NVIDIA-H200-NVL",
    "NVIDIA-GH200-480GB",
    "NVIDIA-GH200-144G-HBM3e",
    "NVIDIA-B200",
    "NVIDIA-GB200",
    "NVIDIA-B300-SXM6-AC",
    "NVIDIA-GB300",
    "NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition",
    "NVIDIA-RTX-PRO-6000-Blackwell-Workstation-Edition",
    "NVIDIA-RTX-PRO-6000-Blackwell-Max-Q-Workstation-Edition",
    "NVIDIA-GeForce-RTX-5090",
)
"""Data-centre GPUs and those of workstations that clusters have: values of `nvidia.com/gpu.product` without any suffix,
as drivers since R470 name the GPUs.

Source: labels and outputs of nvidia-smi that operators publish (issues of github.com/NVIDIA/gpu-operator and
k8s-device-plugin among them). GB10, whose GPU has no memory of its own, and names that were seen once only are left out.
"""


_BRAND = "NVIDIA-"
_LOOKALIKES = str.maketrans("oil", "011")
"""Letters that are mistaken for digits, as they are in `H10O`."""
_DIVIDERS = re.compile(r"[-_. ]+")
_LONGEST = 63
"""In characters, as the value of a label."""

_GENERAL = (
    "nvidia",
    "tesla",
    "quadro",
    "geforce",
    "rtx",
    "gpu",
    "graphics",
    "generation",
    "edition",
    "ac",
    "blackwell",
)
"""Words that do not distinguish known models."""
_EDITIONS = ("sff", "server", "workstation", "max", "q")
"""Words for editions of one model, which are often left out."""
_MEMORY = re.compile(r"([0-9o]+)g(?:i?b)?")
_MEMORY_TYPE = re.compile(r"hbm[0-9]*e?")
_FORM = re.compile(r"(sxm|pcie|nvl)[0-9]*")
_NEAR = 0.08
"""Maximum difference of an amount of memory from that of a GPU, as a fraction: 24 GB are sold, 22.5 GiB are reported."""
_SXM = ("H100-80GB-HBM3", "H800", "H20", "H20-3e", "H200", "B200", "GB200", "GB300", "GH200-480GB", "GH200-144G-HBM3e")
"""Known products that are modules without a form factor in their names; the others without one are PCIe cards."""
_MEMORIES = {
    "P4": 8,
    "P40": 24,
    "T4": 16,
    "RTX-6000": 24,
    "RTX-8000": 48,
    "A2": 16,
    "A10": 24,
    "A10G": 24,
    "A16": 16,
    "A40": 48,
    "RTX-A4000": 16,
    "RTX-A4500": 20,
    "RTX-A5000": 24,
    "RTX-A6000": 48,
    "RTX-3090": 24,
    "RTX-4090": 24,
    "RTX-5090": 32,
    "L4": 24,
    "L20": 48,
    "L40": 48,
    "L40S": 48,
    "RTX-4000-Ada-Generation": 20,
    "RTX-4000-SFF-Ada-Generation": 20,
    "RTX-4500-Ada-Generation": 24,
    "RTX-5000-Ada-Generation": 32,
    "RTX-6000-Ada-Generation": 48,
}
"""GB of known products that MIG does not divide and whose names lack it, by name without the brand."""
_OTHER_MODELS = ("a400", "a1000", "a2000", "t400", "t600", "t1000", "b100")
"""Real models that are not known products, and look like a known one with a character typed twice."""


def bare_name(label: str) -> str:
    """The name of the product of a label, without `NVIDIA-` and any suffix: `A100-SXM4-40GB`."""
    return Product.parse(label).name.removeprefix(_BRAND)


@dataclass(frozen=True, slots=True)
class ProductNames:
    """Names of products, with which misspelt names are compared."""

    names: tuple[str, ...]
    """Without `NVIDIA-`."""

    @classmethod
    def of(cls, labels: Iterable[str]) -> ProductNames:
        """The products that have these values of the label `nvidia.com/gpu.product`."""
        return cls(tuple(sorted(set(map(bare_name, labels)))))

    def products_like(self, pattern: str, *, exact: bool = False, model_only: bool = False) -> list[str]:
        """The products that a name can mean: of the model, memory and form factor in the name.

        Only the nearest: the product that has exactly this name, else those with most facts of the name.

        Args:
            pattern: A name with mistakes, or part of a name; `*` separates words.
            exact: True if every word must be one of the product's; False to allow misspellings.
            model_only: True to return products of the model with any memory and form factor.
        """
        if len(pattern) > _LONGEST:
            return []
        written = _read(_core(pattern))
        distances = {
            name: distance
            for name in self.names
            if (distance := _distance(written, _read(name), exact=exact, model_only=model_only)) is not None
        }
        nearest = min(distances.values(), default=None)
        return [name for name, distance in distances.items() if distance == nearest]

    def suggestion(self, pattern: str) -> str | None:
        """A pattern for the products that a name can mean: `H100*` for `H100`, `Tesla-T4` for `Testla-T4`."""
        return self.with_words_of(pattern) or self._common_pattern(self.products_like(pattern), pattern)

    def with_words_of(self, pattern: str) -> str | None:
        """A pattern for products with all words of a pattern: `A100*80GB*` for `A100-80GB`.

        If every pattern also matches a similar product, one whose products all have the memory in the name: `*V100*32GB`
        for `V100-32GB`, which matches a V100S.
        """
        having = self.products_like(pattern, exact=True)
        if found := self._common_pattern(having, pattern):
            return found
        written = _read(_core(pattern))
        for wider in self._patterns_of(having, pattern) if written.memory else ():
            matching = self._matching_names(wider)
            if set(having) <= set(matching) and all(_agree(written, _read(name)) for name in matching):
                return wider
        return None

    def _common_pattern(self, having: list[str], pattern: str) -> str | None:
        """The name of the only product, or a pattern of several; None if every pattern matches others too."""
        if len(having) == 1 and "*" not in pattern:
            return having[0]
        for found in self._patterns_of(having, pattern):
            if "*" in pattern or self._matching_names(found) == having:
                return found
        return None

    def _patterns_of(self, having: list[str], pattern: str) -> Iterator[str]:
        """Patterns of words that all these products have; first the words of the given pattern."""
        if not having:
            return
        names = [fold_name(name) for name in having]
        first = having[0].split("-")
        written = _read(_core(pattern))
        covered = [first[index] for index in sorted(_shared_words(written.words, _read(having[0]).words)[1])]
        shared = [word for word in first if _is_word_of_all(word, names)]
        for words in (covered, shared):
            if not words or not all(_is_word_of_all(word, names) for word in words):
                continue
            whole = "-".join(words)
            parts = [whole] if all(f"-{fold_name(whole)}-" in f"-{name}-" for name in names) else words
            start, end = fold_name(parts[0]), fold_name(parts[-1])
            before = "*" if pattern.startswith("*") or not all(name.startswith(start) for name in names) else ""
            after = "*" if pattern.endswith("*") or not all(name.endswith(end) for name in names) else ""
            for ending in (after, f"-{after}") if after else ("",):
                yield f"{before}{'*'.join(parts)}{ending}"

    def _matching_names(self, pattern: str) -> list[str]:
        return [name for name in self.names if any_matches([fold_name(pattern)], fold_name(name))]


@dataclass(frozen=True, slots=True)
class _Name:
    """A name of a product taken apart."""

    words: tuple[str, ...]
    """Folded: in lower case, and with digits for letters that look like them."""
    spelled: tuple[str, ...]
    """In lower case."""
    model: frozenset[int]
    """The indices of words that distinguish the model."""
    memory: frozenset[int]
    """In GB; several if the name has that of the CPU too. Empty if it is unknown."""
    form: str
    """`sxm`, `pcie` or `nvl`; empty if it is unknown."""


@lru_cache(maxsize=1024)
def _read(name: str) -> _Name:
    spelled = tuple(filter(None, _DIVIDERS.split(name.lower())))
    form = next((match[1] for word in spelled if (match := _FORM.fullmatch(word))), "")
    memory = {int(match[1].replace("o", "0")) for word in spelled if (match := _MEMORY.fullmatch(word))}
    bare = name.removeprefix(_BRAND)
    if bare in KNOWN_PRODUCTS or _BRAND + bare in KNOWN_PRODUCTS:
        divided = product_named(bare)
        form = form or ("sxm" if bare in _SXM else "pcie")
        bare = bare.removeprefix("Tesla-").removeprefix("Quadro-").removeprefix("GeForce-")
        memory |= set(divided.memory) if divided else {_MEMORIES[bare]} if bare in _MEMORIES else set()
    model = frozenset(
        index for index, word in enumerate(spelled) if word not in (*_GENERAL, *_EDITIONS) and not _is_fact(word)
    )
    return _Name(tuple(map(_fold, spelled)), spelled, model, frozenset(memory), form)


def _is_word_of_all(word: str, names: Iterable[str]) -> bool:
    """True if all names have a word, in upper or lower case. The names are folded."""
    return all(fold_name(word) in name.split("-") for name in names)


def _is_fact(word: str) -> bool:
    """True if a word is an amount of memory, its type or a form factor."""
    return any(pattern.fullmatch(word) for pattern in (_MEMORY, _MEMORY_TYPE, _FORM))


def _distance(written: _Name, product: _Name, *, exact: bool, model_only: bool) -> tuple[bool, int] | None:
    """The distance between a name and a product, for comparison; None if it is another GPU.

    First True if the name lacks a fact or an edition of the product, then the number of facts that only the name has.
    """
    if not model_only and not _agree(written, product):
        return None
    ours, theirs = _shared_words(written.words, product.words)
    missing = set(range(len(product.words))) - theirs
    untold = 0
    for index, word in enumerate(written.spelled):
        if index in ours:
            continue
        meant = None if exact else next((each for each in sorted(missing) if _is_typo(word, product, each)), None)
        if meant is not None:
            missing.discard(meant)
        elif exact or not (_is_fact(word) or word in _GENERAL or _is_misspelt(word, _GENERAL)):
            return None
        elif _is_fact(word):
            untold += 1
    if missing & product.model:
        return None
    return any(product.spelled[index] not in _GENERAL for index in missing), untold


def _agree(written: _Name, product: _Name) -> bool:
    """True if memory and form factor are the same, as far as both are known."""
    if written.form and product.form and written.form != product.form:
        return False
    return not product.memory or all(
        any(abs(asked - has) <= _NEAR * max(asked, has) for has in product.memory) for asked in written.memory
    )


def _shared_words(ours: Sequence[str], theirs: Sequence[str]) -> tuple[set[int], set[int]]:
    """The indices of shared words, also if they are divided differently, as `GB-200` and `GB200`."""
    runs = _runs(ours), _runs(theirs)
    common = runs[0].keys() & runs[1].keys()
    return {index for text in common for index in runs[0][text]}, {index for text in common for index in runs[1][text]}


def _runs(words: Sequence[str]) -> dict[str, range]:
    return {
        "".join(words[start:end]): range(start, end)
        for start in range(len(words))
        for end in range(start + 1, len(words) + 1)
    }


def _is_typo(word: str, product: _Name, index: int) -> bool:
    """True if a word can only be a misspelling of one of the product's.

    Of a model with digits, only a character that was typed twice is corrected.
    """
    right = product.spelled[index]
    if word in _known_words() or word in _OTHER_MODELS:
        return False
    if index in product.model and any(map(str.isdigit, right)):
        return any(
            word[position] == word[position - 1] and _fold(word[:position] + word[position + 1 :]) == _fold(right)
            for position in range(1, len(word))
        )
    digits = [[each for each in text if each.isdigit()] for text in (word, right)]
    return digits[0] == digits[1] and _is_misspelt(word, (right,))


@lru_cache(maxsize=4096)
def _is_misspelt(word: str, known: tuple[str, ...]) -> bool:
    return closest(word, known) is not None or any(sorted(word) == sorted(each) for each in known)


@lru_cache(maxsize=1)
def _known_words() -> frozenset[str]:
    return frozenset(word for name in KNOWN_PRODUCTS for word in _DIVIDERS.split(name.lower()))


def _core(pattern: str) -> str:
    return pattern.replace("*", "-").replace("?", "x")


def _fold(name: str) -> str:
    return name.lower().translate(_LOOKALIKES)


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
