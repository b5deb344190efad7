"""Wishes: the annotations of a pod that say what GPU it wants."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from policies.analyses.generate.documents import Generated, GenerationError, Step, read_products
from policies.kubernetes.names import PREFIX
from policies.kubernetes.phrases import format_list
from policies.nvidia.wish_words import as_sold
from policies.nvidia.wishes import Wish, WishError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["generate_wish", "memory_remarks", "read_wish"]

_MEMORY = "min-memory"
_PRODUCT = "product"


def generate_wish(words: Mapping[str, str]) -> Generated:
    """The annotations, as a fragment of a pod or of a pod template.

    Args:
        words: Texts by the names of the annotations without `gpu-admission.io/`; empty ones are no wish.

    Raises:
        GenerationError: A text cannot be read, no GPU can meet all of them, or all are empty.
    """
    wish = read_wish(words)
    if not wish:
        raise GenerationError("", 'no wish is given; set an option such as --product "H100*"')
    given = {word: text.strip() for word, text in words.items() if text}
    if wish.products:
        given[_PRODUCT] = str(wish.products)
    fragment = {"metadata": {"annotations": {f"{PREFIX}{word}": text for word, text in given.items()}}}
    remarks = ["Add it to a pod, or to spec.template of a workload.", *_products_remark(wish), *memory_remarks(words)]
    return Generated(tuple(remarks), fragment, (Step("The pod still requests its GPUs by resources or by claims."),))


def read_wish(words: Mapping[str, str]) -> Wish:
    """The wish that some texts say; a product as people write it becomes a pattern.

    Raises:
        GenerationError: A text cannot be read, or no GPU can meet all of them.
    """
    given = {word: text for word, text in words.items() if text}
    patterns = read_products(given.pop(_PRODUCT)).patterns if _PRODUCT in given else None
    for word, text in given.items():
        try:
            Wish.check(word, text)
        except WishError as error:
            raise GenerationError(f"--{word}", f"{error}; {error.remedy}") from None
    wish = replace(Wish.of(given), products=patterns)
    if contradictions := wish.contradictions():
        raise GenerationError("", f"no GPU meets all options: {contradictions[0][1]}")
    return wish


def memory_remarks(words: Mapping[str, str]) -> list[str]:
    """A remark if a bound excludes GPUs that are sold with it, such as 80Gi for 80 GB; else nothing."""
    text = words.get(_MEMORY, "").strip()
    sold = as_sold(text) if text else None
    if sold is None:
        return []
    return [f"GPUs that are sold with {sold.removesuffix('G')} GB can have less than {text}; {sold} includes them."]


def _products_remark(wish: Wish) -> list[str]:
    if wish.products is None or not wish.products.includes:
        return []
    return [f"Known products that match: {format_list(read_products(str(wish.products)).labels)}."]
