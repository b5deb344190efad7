"""Proposals: the names to write instead of the name of a GPU that a cluster lacks or that is misspelt."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from policies.kubernetes.names import format_list, shown
from policies.nvidia.mig import MIGProfile
from policies.nvidia.mig_products import has_profile
from policies.nvidia.product_names import LONGEST_LABEL, ProductNames, differences, labels_like
from policies.nvidia.products import KNOWN_PRODUCTS, Product
from policies.nvidia.wishes import ProductPatterns, WishError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence


_SUFFIXES = re.compile(
    r"(.*?)(?:[-_. *]+(?:mig[-_. ]+)?(invalid|[0-9]+g\.[0-9]+gb[a-z.+-]*))?([-_. ]+shared)?", re.IGNORECASE | re.DOTALL
)
"""A name, a MIG profile, and whether GPUs are shared."""
_ALTERNATIVES = re.compile(r"[-_ ]+(?:or|and)[-_ ]+", re.IGNORECASE)
_SEPARATORS = re.compile(r"[,;|/&+\n]|\b(?:or|and)\b", re.IGNORECASE)
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.*? \N{HYPHEN}-\N{HORIZONTAL BAR}-]")
_MOST_PARTS = 10
_MOST_NAMED = 3


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
        if not listed:
            return "choose from what there is"
        names = format_list(listed, _MOST_NAMED)
        if self.others:
            return f"for a node that comes later, the name{' is' if len(listed) == 1 else 's are'} {names}"
        return f"write {'one of ' if len(listed) > 1 else ''}{names}{self.note}"

    def message(self, text: str) -> str:
        """The message: the text about the name, and what else there is."""
        return f"{text}; {self.others}" if self.others else text


def propose_labels(value: str, here: Collection[str]) -> Proposal | None:
    """The labels of the GPU that a label means; None if it is unknown, or right for later nodes.

    Args:
        value: A value of `nvidia.com/gpu.product`, or another name of a GPU.
        here: The labels that nodes have.
    """
    if len(value) > LONGEST_LABEL:
        return None
    wanted, nodes = _read_product(value), {label: Product.parse(label) for label in sorted(here)}
    same_gpu = labels_like(wanted.name, nodes)
    same_devices = [
        label for label in same_gpu if (nodes[label].profile, nodes[label].invalid) == (wanted.profile, wanted.invalid)
    ]
    if exact := [label for label in same_devices if nodes[label].shared == wanted.shared]:
        return Proposal(tuple(exact))
    is_possible = not wanted.profile or has_profile(wanted.name, wanted.profile)
    if Product.parse(value).name in KNOWN_PRODUCTS and is_possible and (wanted.shared or wanted.profile):
        return None
    if same_devices:
        return Proposal(tuple(same_devices), note=f": the GPUs there are {'not ' if wanted.shared else ''}shared")
    if same_gpu:
        names = [f"{nodes[label].name}{_mig_suffix(wanted.profile)}" for label in same_gpu]
        names = [name for name in names if not wanted.profile or has_profile(Product.parse(name).name, wanted.profile)]
        return Proposal(tuple(dict.fromkeys(names) if value not in names else ()), _other_gpus([wanted], same_gpu))
    others = "" if wanted.name in KNOWN_PRODUCTS else _other_gpus([wanted], here)
    return Proposal(tuple(labels_like(wanted.name, KNOWN_PRODUCTS)), others) if others else None


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
    others = "" if is_here else _other_gpus(list(map(_read_product, parts)), here)
    return Proposal(names, others) if others or (names and is_here) else None


def readable_patterns(text: str) -> str:
    """The patterns that an unreadable list means: `H100*,A100*` for `H100|A100`; empty if unclear."""
    parts = [_NOT_IN_NAMES.sub("", part).strip() for part in _SEPARATORS.split(text)]
    if "!" in text or len(parts) > _MOST_PARTS or any(len(part) > LONGEST_LABEL for part in parts):
        return ""
    proposal = propose_patterns(" or ".join(part.replace(" ", "-") for part in parts))
    return ",".join(proposal.names) if proposal else ""


def _propose_pattern(text: str, here: Collection[str]) -> str | None:
    """A pattern of the products that a name means, preferably one that the cluster has too."""
    known = [*KNOWN_PRODUCTS, *here]
    if any(_admits(text, label) for label in known):
        return text
    wanted = _read_product(text)
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


def _is_divided(product: Product, profile: MIGProfile) -> bool:
    """True if a product has MIG devices of a profile, or can have them."""
    return product.profile == profile or has_profile(product.name, profile)


def _mig_suffix(profile: MIGProfile | None) -> str:
    return f"-MIG-{profile.label}" if profile else ""


def _admits(pattern: str, label: str) -> bool:
    product = Product.parse(label)
    return not product.invalid and ProductPatterns((pattern,)).admits(product.name, product.profile)


def _read_product(text: str) -> Product:
    """A name taken apart as by `Product.parse`; suffixes may be in lower case and divided by anything."""
    match = _SUFFIXES.fullmatch(text)
    name, mig, shared = match.groups() if match else (text, None, None)
    profile = MIGProfile.from_label(mig.lower()) if mig else None
    if mig and not profile and mig.lower() != "invalid":
        return Product(text)
    return Product(name, profile, bool(shared), bool(mig) and profile is None)


def _other_gpus(wanted: Sequence[Product], here: Collection[str]) -> str:
    """A clause on the GPUs of a cluster that has none of some products; empty for unknown models."""
    of_model: dict[str, Product] = {}
    is_known = False
    for product in wanted:
        alike = labels_like(product.name, [*KNOWN_PRODUCTS, *here], model_only=True)
        is_known = is_known or bool(alike)
        of_model |= {label: product for label in here if label in alike}
    if not is_known:
        return ""
    differing = [differences(product.name, label) for label, product in of_model.items()]
    facts = ["other memory"] if any(in_memory for in_memory, _ in differing) else []
    facts += ["another form factor"] if any(in_form for _, in_form in differing) else []
    labels = sorted(of_model or here)
    is_one = len(labels) == 1
    if facts:
        clause = f"{'has' if is_one else 'have'} {' or '.join(facts)}"
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
        WishError: the text is not such a list, or a name in it matches no known product.
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
    if found := ProductNames.of(KNOWN_PRODUCTS).pattern_with_words(pattern):
        return found
    proposal = propose_patterns(pattern)
    example = 'write the label nvidia.com/gpu.product of a known product, such as "Tesla-T4"'
    remedy = proposal.remedy(as_patterns=True) if proposal else example
    raise WishError(f"names an unknown product {shown(pattern)}", remedy)
