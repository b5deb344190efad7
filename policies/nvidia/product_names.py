"""Names of products: the GPU that a misspelt or foreign name means, and what to write instead."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from policies.kubernetes.names import closest, format_list, shown
from policies.nvidia.known_products import GKE_ACCELERATORS, KNOWN_PRODUCTS, MEMORY_SIZES, SXM_PRODUCTS
from policies.nvidia.mig import MIGProfile
from policies.nvidia.mig_products import product_named
from policies.nvidia.products import Product, any_matches, fold_name
from policies.nvidia.wishes import ProductPatterns, WishError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence


_BRAND = "NVIDIA-"
_LOOKALIKES = str.maketrans("oil", "011")
"""Letters that are mistaken for digits, as they are in `H10O`."""
_DIVIDERS = re.compile(r"[-_. \N{HYPHEN}-\N{HORIZONTAL BAR}]+|(?<=[0-9s])(?=(?:sxm|pcie|nvl))")
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
"""Of the third group: boards and systems of modules, such as the NVL72."""
_PCIE = re.compile(r"pci[-_ ]e")
_SIZE = re.compile(
    r"([a-z]*[0-9]+[a-z]*|sxm|pcie|nvl)([-_. ]+)(16|24|32|40|48|64|80|94|96|141|144|180|192|288)(?=[-_. ]|$)"
)
"""An amount of memory without its unit, as in `A100-80`."""
_SUFFIXES = re.compile(
    r"(.*?)(?:[-_. *]+(?:mig[-_. ]+)?(invalid|[0-9]+g\.[0-9]+gb[a-z.+-]*))?([-_. ]+shared)?", re.IGNORECASE | re.DOTALL
)
"""A name, a MIG profile, and whether GPUs are shared."""
_ALTERNATIVES = re.compile(r"[-_ ]+(?:or|and)[-_ ]+", re.IGNORECASE)
_SEPARATORS = re.compile(r"[,;|/&+\n]|\b(?:or|and)\b", re.IGNORECASE)
_NO_NAME = re.compile(r"[^A-Za-z0-9_.*? \N{HYPHEN}-\N{HORIZONTAL BAR}-]")
"""Characters that are in no name."""
_MOST_PARTS = 10
_MOST_NAMED = 3
_NEAR = 0.08
"""Maximum difference of an amount of memory from that of a GPU, as a fraction: 24 GB are sold, 22.5 GiB are reported."""
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
        if len(pattern) > _LONGEST:
            return []
        written = _read(_core(pattern))
        for is_exact in (True,) if exact else (True, False):
            pairs = [
                (name, _distance(written, _read(name), exact=is_exact, model_only=model_only)) for name in self.names
            ]
            distances = {name: distance for name, distance in pairs if distance is not None}
            if distances:
                nearest = min(distances.values())
                return [name for name, distance in distances.items() if model_only or distance == nearest]
        return []

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


@lru_cache(maxsize=1024)
def _read(name: str) -> _Name:
    spelled = tuple(filter(None, _DIVIDERS.split(_SIZE.sub(r"\1\2\3gb", _PCIE.sub("pcie", name.lower())))))
    form = next((match[1] or match[2] or "sxm" for word in spelled if (match := _FORM.fullmatch(word))), "")
    memory = {int(match[1].replace("o", "0")) for word in spelled if (match := _MEMORY.fullmatch(word))}
    bare = name.removeprefix(_BRAND)
    if name in GKE_ACCELERATORS:
        # With memory in the name, others than GKE use it too, for any form factor.
        known = _read(GKE_ACCELERATORS[name])
        form, memory = ("", memory) if memory else (known.form, set(known.memory))
    elif bare in KNOWN_PRODUCTS or _BRAND + bare in KNOWN_PRODUCTS:
        divided = product_named(bare)
        form = form or ("sxm" if bare in SXM_PRODUCTS else "pcie")
        bare = bare.removeprefix("Tesla-").removeprefix("Quadro-").removeprefix("GeForce-")
        memory |= set(divided.memory) if divided else {MEMORY_SIZES[bare]} if bare in MEMORY_SIZES else set()
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
        elif (exact and not model_only) or not (_is_fact(word) or word in _GENERAL or _is_misspelt(word, _GENERAL)):
            return None
        elif _is_fact(word):
            untold += 1
    if missing & product.model:
        return None
    return any(product.spelled[index] not in _GENERAL for index in missing), untold


def _agree(written: _Name, product: _Name) -> bool:
    """True if memory and form factor are the same, as far as both are known."""
    return _agree_in_form(written, product) and _agree_in_memory(written, product)


def _agree_in_form(written: _Name, product: _Name) -> bool:
    return not written.form or not product.form or written.form == product.form


def _agree_in_memory(written: _Name, product: _Name) -> bool:
    return not product.memory or all(
        any(abs(asked - has) <= _NEAR * max(asked, has) for has in product.memory) for asked in written.memory
    )


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
class Proposal:
    """The names to write instead of the name of a GPU, or what else the cluster has."""

    names: tuple[str, ...]
    """Names of the GPU that is meant: labels, or patterns of all its products; empty if there is no such GPU."""
    others: str = ""
    """A clause on the GPUs of the cluster, if none of them is meant; empty otherwise."""
    note: str = ""
    """The difference of the devices that have these names."""

    def remedy(self, *, as_patterns: bool = False) -> str:
        """The remedy: to write one of the labels, or all of the patterns."""
        listed = [shown(",".join(self.names))] if as_patterns and self.names else list(map(shown, self.names))
        said = format_list(listed, _MOST_NAMED)
        if not listed:
            return "choose from what there is"
        if self.others:
            return f"for a node that comes later, the name{' is' if len(listed) == 1 else 's are'} {said}"
        return f"write {'one of ' if len(listed) > 1 else ''}{said}{self.note}"

    def message(self, text: str) -> str:
        """The message: the text about the name, and what else there is."""
        return f"{text}; {self.others}" if self.others else text


def propose_labels(value: str, here: Collection[str]) -> Proposal | None:
    """The labels of the GPU that a label means; None if it is unknown, or right for later nodes.

    Args:
        value: A value of `nvidia.com/gpu.product`, or another name of a GPU.
        here: The labels that nodes have.
    """
    if len(value) > _LONGEST:
        return None
    wanted, found = _parse(value), {label: Product.parse(label) for label in sorted(here)}
    names = ProductNames.of(found).products_like(wanted.name)
    same = [label for label in found if bare_name(label) in names]
    alike = [
        label for label in same if (found[label].profile, found[label].invalid) == (wanted.profile, wanted.invalid)
    ]
    if exact := [label for label in alike if found[label].shared == wanted.shared]:
        return Proposal(tuple(exact))
    is_possible = not wanted.profile or has_profile(wanted.name, wanted.profile)
    if Product.parse(value).name in KNOWN_PRODUCTS and is_possible and (wanted.shared or wanted.profile):
        return None
    if alike:
        return Proposal(tuple(alike), note=f": the GPUs there are {'not ' if wanted.shared else ''}shared")
    if same:
        names = [f"{found[label].name}{_mig_suffix(wanted.profile)}" for label in same]
        names = [name for name in names if not wanted.profile or has_profile(Product.parse(name).name, wanted.profile)]
        return Proposal(tuple(dict.fromkeys(names) if value not in names else ()), _other_gpus([wanted], same))
    others = "" if wanted.name in KNOWN_PRODUCTS else _other_gpus([wanted], here)
    meant = ProductNames.of(KNOWN_PRODUCTS).products_like(wanted.name)
    return Proposal(tuple(label for label in KNOWN_PRODUCTS if bare_name(label) in meant), others) if others else None


def propose_patterns(text: str, here: Collection[str] = ()) -> Proposal | None:
    """The patterns of the GPUs that a name means, `H100*` and `A100*` for `H100-or-A100`.

    None if the name is unknown.

    Args:
        text: A pattern that no product has, or several.
        here: The labels of products that the cluster has; empty if they are unknown.
    """
    parts = _ALTERNATIVES.split(text)
    found = [_propose_pattern(part, here) for part in parts]
    names = tuple(dict.fromkeys(each for each in found if each)) if all(found) else ()
    is_here = not here or any(_admits(name, label) for name in names for label in here)
    others = "" if is_here else _other_gpus(list(map(_parse, parts)), here)
    return Proposal(names, others) if others or (names and is_here) else None


def readable_patterns(text: str) -> str:
    """The patterns that an unreadable list means: `H100*,A100*` for `H100|A100`; empty if unclear."""
    parts = [_NO_NAME.sub("", part).strip() for part in _SEPARATORS.split(text)]
    if "!" in text or len(parts) > _MOST_PARTS or any(len(part) > _LONGEST for part in parts):
        return ""
    proposal = propose_patterns(" or ".join(part.replace(" ", "-") for part in parts))
    return ",".join(proposal.names) if proposal else ""


def _propose_pattern(text: str, here: Collection[str]) -> str | None:
    """A pattern of the products that a name means, preferably one that the cluster has too."""
    known = [*KNOWN_PRODUCTS, *here]
    if any(_admits(text, label) for label in known):
        return text
    wanted = _parse(text)
    suffix = _mig_suffix(wanted.profile)
    names = [ProductNames.of(labels).suggestion(wanted.name) for labels in (known, here)]
    patterns = [name + suffix for name in names if name]
    if wanted.profile:
        divided = [
            product.name + suffix for product in map(Product.parse, known) if _is_divided(product, wanted.profile)
        ]
        patterns = [each for each in patterns if any(_admits(each, label) for label in divided)]
    in_cluster = [each for each in patterns if any(_admits(each, label) for label in here)]
    return next(iter(in_cluster or patterns), None)


def has_profile(name: str, profile: MIGProfile) -> bool:
    """True if the GPU of a product is known to have a MIG profile of exactly this name."""
    product = product_named(name)
    match = product.match(profile) if product else None
    return match is not None and match.exact


def _is_divided(product: Product, profile: MIGProfile) -> bool:
    return product.profile == profile or has_profile(product.name, profile)


def _mig_suffix(profile: MIGProfile | None) -> str:
    return f"-MIG-{profile.label}" if profile else ""


def _admits(pattern: str, label: str) -> bool:
    product = Product.parse(label)
    return not product.invalid and ProductPatterns((pattern,)).admits(product.name, product.profile)


def _parse(text: str) -> Product:
    """A name with its suffixes, in upper or lower case and divided by anything."""
    match = _SUFFIXES.fullmatch(text)
    name, device, shared = match.groups() if match else (text, None, None)
    profile = MIGProfile.from_label(device.lower()) if device else None
    if device and not profile and device.lower() != "invalid":
        return Product(text)
    return Product(name, profile, bool(shared), bool(device) and profile is None)


def _other_gpus(wanted: Sequence[Product], here: Collection[str]) -> str:
    """A clause on the GPUs of a cluster that has none of some products; empty for unknown models."""
    of_model: dict[str, Product] = {}
    is_known = False
    for product in wanted:
        alike = ProductNames.of([*KNOWN_PRODUCTS, *here]).products_like(product.name, model_only=True)
        is_known = is_known or bool(alike)
        of_model |= {label: product for label in here if bare_name(label) in alike}
    if not is_known:
        return ""
    pairs = [(_read(_core(product.name)), _read(bare_name(label))) for label, product in of_model.items()]
    said = [
        *(["other memory"] if not all(_agree_in_memory(*pair) for pair in pairs) else []),
        *(["another form factor"] if not all(_agree_in_form(*pair) for pair in pairs) else []),
    ]
    labels = sorted(of_model or here)
    is_one = len(labels) == 1
    if said:
        clause = f"{'has' if is_one else 'have'} {' or '.join(said)}"
    elif any(product.profile for product in of_model.values()):
        clause = f"{'is' if is_one else 'are'} this GPU without such MIG devices"
    elif any(each.profile or each.invalid for each in map(Product.parse, of_model)):
        clause = f"{'is' if is_one else 'are'} this GPU divided by MIG"
    else:
        clause = "is another GPU" if is_one else "are other GPUs"
    return f"the cluster has {format_list(list(map(shown, labels)), _MOST_NAMED)}, which {clause}"


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
    if found := ProductNames.of(KNOWN_PRODUCTS).with_words_of(pattern):
        return found
    proposal = propose_patterns(pattern)
    example = 'write the label nvidia.com/gpu.product of a known product, such as "Tesla-T4"'
    remedy = proposal.remedy(as_patterns=True) if proposal else example
    raise WishError(f"names an unknown product {shown(pattern)}", remedy)
