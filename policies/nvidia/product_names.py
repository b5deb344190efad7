"""Names of products: the GPUs that a misspelt or foreign name means."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from policies.kubernetes.names import closest
from policies.nvidia.mig_products import product_named
from policies.nvidia.products import (
    GKE_ACCELERATORS,
    KNOWN_PRODUCTS,
    MEMORY_SIZES,
    SXM_PRODUCTS,
    Product,
    any_matches,
    fold_name,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator


_BRAND = "NVIDIA-"
_LOOKALIKES = str.maketrans("oil", "011")
"""Letters that are mistaken for digits, as they are in `H10O`."""
_DIVIDERS = re.compile(r"[-_. \N{HYPHEN}-\N{HORIZONTAL BAR}]+|(?<=[0-9s])(?=(?:sxm|pcie|nvl))")
LONGEST_LABEL = 63
"""The maximum length of the value of a label, in characters."""
_MOST_PRODUCTS = 256
"""The most products that a name is compared with. No cluster has as many, and comparing takes time for each."""

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
    "mega",
    "tensor",
    "core",
)
"""Words that do not distinguish known models; `mega` is a machine type of GKE."""
_EDITIONS = ("sff", "server", "workstation", "max", "q")
"""Words for editions of one model, which are often left out."""
_MEMORY = re.compile(r"([0-9o]+)g(?:i?b)?")
_MEMORY_TYPE = re.compile(r"hbm[0-9]*e?")
_FORM = re.compile(r"(?:(sxm|pcie)[0-9]*|(nvl)|(hgx|dgx|nvlink|nvl[0-9]+))")
"""A form factor. The third group has boards and systems of SXM modules, such as the NVL72."""
_DIVIDED_PCIE = re.compile(r"pci[-_ ]e")
_BARE_SIZE = re.compile(
    r"([a-z]*[0-9]+[a-z]*|sxm|pcie|nvl)([-_. ]+)(16|24|32|40|48|64|80|94|96|141|144|180|192|288)(?=[-_. ]|$)"
)
"""An amount of memory without its unit, as in `A100-80`."""
_MEMORY_TOLERANCE = 0.08
"""Maximum difference of an amount of memory from that of a GPU, as a fraction: 24 GB are sold, 22.5 GiB are reported."""
_OTHER_MODELS = ("a400", "a1000", "a2000", "t400", "t600", "t1000", "b100")
"""Real models that are not known products, and look like a known one with a character typed twice.

Source: the pages of NVIDIA's RTX and T series, and of HGX B100.
"""


def bare_name(label: str) -> str:
    """The name of the product of a label, without `NVIDIA-` and any suffix: `A100-SXM4-40GB`."""
    return Product.parse(label).name.removeprefix(_BRAND)


def labels_like(name: str, labels: Collection[str], *, model_only: bool = False) -> list[str]:
    """The labels among these of the products that a name can mean; see `ProductNames.products_like`."""
    products = ProductNames.of(labels).products_like(name, model_only=model_only)
    return [label for label in labels if bare_name(label) in products]


def differences(name: str, label: str) -> tuple[bool, bool]:
    """True for memory and True for the form factor if a name and a label differ in it.

    Facts that one of them lacks do not differ.
    """
    written, product = _read_pattern(name), _read_name(bare_name(label))
    return not written.agrees_in_memory(product), not written.agrees_in_form(product)


@dataclass(frozen=True, slots=True)
class ProductNames:
    """Names of products, with which misspelt names are compared."""

    names: tuple[str, ...]
    """Without `NVIDIA-`."""

    @classmethod
    def of(cls, labels: Iterable[str]) -> ProductNames:
        """The products that have these values of the label `nvidia.com/gpu.product`."""
        return _product_names(frozenset(labels))

    def products_like(self, pattern: str, *, exact: bool = False, model_only: bool = False) -> list[str]:
        """The products that a name can mean: of the model, memory and form factor in the name.

        Only the nearest: the product that has exactly this name, else those with most facts of the name; those with a
        misspelt word only if no other has all words.

        Args:
            pattern: A name with mistakes, or part of a name; `*` separates words.
            exact: True if every word must be one of the product's.
            model_only: True to return products of the model with any memory and form factor.
        """
        if len(pattern) > LONGEST_LABEL or len(self.names) > _MOST_PRODUCTS:
            return []
        written = _read_pattern(pattern)
        for is_exact in (True,) if exact else (True, False):
            distances = {
                name: distance
                for name in self.names
                if (distance := _distance(written, _read_name(name), exact=is_exact, model_only=model_only)) is not None
            }
            if distances:
                nearest = min(distances.values())
                return [name for name, distance in distances.items() if model_only or distance == nearest]
        return []

    def suggestion(self, pattern: str) -> str | None:
        """A pattern for the products that a name can mean: `H100*` for `H100`, `Tesla-T4` for `Testla-T4`."""
        return self.pattern_with_words(pattern) or self._common_pattern(self.products_like(pattern), pattern)

    def pattern_with_words(self, pattern: str) -> str | None:
        """A pattern for products with all words of a pattern: `A100*80GB*` for `A100-80GB`.

        If every pattern also matches a similar product, one whose products all have the memory in the name: `*V100*32GB`
        for `V100-32GB`, which matches a V100S.
        """
        products = self.products_like(pattern, exact=True)
        if found := self._common_pattern(products, pattern):
            return found
        written = _read_pattern(pattern)
        for wider in self._patterns_of(products, pattern) if written.memory else ():
            matching = self._matching_names(wider)
            if set(products) <= set(matching) and all(written.agrees(_read_name(name)) for name in matching):
                return wider
        return None

    def _common_pattern(self, products: list[str], pattern: str) -> str | None:
        """The name of the only product, or a pattern of several; None if every pattern matches others too."""
        if len(products) == 1 and "*" not in pattern:
            return products[0]
        for found in self._patterns_of(products, pattern):
            if "*" in pattern or self._matching_names(found) == products:
                return found
        return None

    def _patterns_of(self, products: list[str], pattern: str) -> Iterator[str]:
        """Patterns of words that all these products have; first the words of the given pattern."""
        if not products:
            return
        names = [fold_name(name) for name in products]
        in_all = set.intersection(*(set(name.split("-")) for name in names))
        first = products[0].split("-")
        _, written = _shared_words(_read_pattern(pattern).words, _read_name(products[0]).words)
        for words in (
            [first[index] for index in sorted(written)],
            [word for word in first if fold_name(word) in in_all],
        ):
            if not words or not all(fold_name(word) in in_all for word in words):
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


@lru_cache(maxsize=16)
def _product_names(labels: frozenset[str]) -> ProductNames:
    return ProductNames(tuple(sorted(set(map(bare_name, labels)))))


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

    def agrees(self, product: _Name) -> bool:
        """True if memory and form factor are the same, as far as both are known."""
        return self.agrees_in_form(product) and self.agrees_in_memory(product)

    def agrees_in_form(self, product: _Name) -> bool:
        """True if the form factor is the same, or unknown."""
        return not self.form or not product.form or self.form == product.form

    def agrees_in_memory(self, product: _Name) -> bool:
        """True if the product has every amount of memory in the name, or its memory is unknown."""
        return not product.memory or all(
            any(abs(written - actual) <= _MEMORY_TOLERANCE * max(written, actual) for actual in product.memory)
            for written in self.memory
        )


def _read_pattern(pattern: str) -> _Name:
    """A pattern taken apart like a name: `*` divides words, and `?` is a letter that no name has there."""
    return _read_name(pattern.replace("*", "-").replace("?", "x"))


@lru_cache(maxsize=1024)
def _read_name(name: str) -> _Name:
    """A name taken apart. A known product has its memory and form factor, also if its name lacks them."""
    spelled = tuple(filter(None, _DIVIDERS.split(_BARE_SIZE.sub(r"\1\2\3gb", _DIVIDED_PCIE.sub("pcie", name.lower())))))
    form = next((match[1] or match[2] or "sxm" for word in spelled if (match := _FORM.fullmatch(word))), "")
    memory = {int(match[1].replace("o", "0")) for word in spelled if (match := _MEMORY.fullmatch(word))}
    bare = name.removeprefix(_BRAND)
    if name in GKE_ACCELERATORS:
        # With memory in the name, others than GKE use it too, for any form factor.
        known = _read_name(GKE_ACCELERATORS[name])
        form, memory = ("", memory) if memory else (known.form, set(known.memory))
    elif bare in KNOWN_PRODUCTS or _BRAND + bare in KNOWN_PRODUCTS:
        divided = product_named(bare)
        form = form or ("sxm" if bare in SXM_PRODUCTS else "pcie")
        bare = bare.removeprefix("Tesla-").removeprefix("Quadro-").removeprefix("GeForce-")
        memory |= set(divided.memory) if divided else {MEMORY_SIZES[bare]} if bare in MEMORY_SIZES else set()
    model = frozenset(
        index for index, word in enumerate(spelled) if word not in (*_GENERAL, *_EDITIONS) and not _is_fact(word)
    )
    return _Name(tuple(map(_fold_lookalikes, spelled)), spelled, model, frozenset(memory), form)


def _is_fact(word: str) -> bool:
    """True if a word is an amount of memory, its type or a form factor."""
    return any(pattern.fullmatch(word) for pattern in (_MEMORY, _MEMORY_TYPE, _FORM))


def _distance(written: _Name, product: _Name, *, exact: bool, model_only: bool) -> tuple[bool, int] | None:
    """The distance between a name and a product, for comparison; None if it is another GPU.

    First True if the name lacks a fact or an edition of the product, then the number of facts that only the name has.
    """
    if not model_only and not written.agrees(product):
        return None
    ours, theirs = _shared_words(written.words, product.words)
    missing = set(range(len(product.words))) - theirs
    extra_facts = 0
    for index, word in enumerate(written.spelled):
        if index in ours:
            continue
        meant = None if exact else next((each for each in sorted(missing) if _is_typo(word, product, each)), None)
        if meant is not None:
            missing.discard(meant)
        elif (exact and not model_only) or not (_is_fact(word) or word in _GENERAL or _is_similar(word, _GENERAL)):
            return None
        elif _is_fact(word):
            extra_facts += 1
    if missing & product.model:
        return None
    return any(product.spelled[index] not in _GENERAL for index in missing), extra_facts


def _shared_words(ours: tuple[str, ...], theirs: tuple[str, ...]) -> tuple[set[int], set[int]]:
    """The indices of shared words, also if they are divided differently, as `GB-200` and `GB200`."""
    runs = _runs(ours), _runs(theirs)
    common = runs[0].keys() & runs[1].keys()
    return {index for text in common for index in runs[0][text]}, {index for text in common for index in runs[1][text]}


@lru_cache(maxsize=1024)
def _runs(words: tuple[str, ...]) -> dict[str, range]:
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
            word[position] == word[position - 1]
            and _fold_lookalikes(word[:position] + word[position + 1 :]) == _fold_lookalikes(right)
            for position in range(1, len(word))
        )
    digits = [[each for each in text if each.isdigit()] for text in (word, right)]
    return digits[0] == digits[1] and _is_similar(word, (right,))


@lru_cache(maxsize=4096)
def _is_similar(word: str, known: tuple[str, ...]) -> bool:
    """True if a word is close to a known one, or has the same letters in another order."""
    return closest(word, known) is not None or any(sorted(word) == sorted(each) for each in known)


@lru_cache(maxsize=1)
def _known_words() -> frozenset[str]:
    return frozenset(word for name in KNOWN_PRODUCTS for word in _DIVIDERS.split(name.lower()))


def _fold_lookalikes(name: str) -> str:
    return name.lower().translate(_LOOKALIKES)
