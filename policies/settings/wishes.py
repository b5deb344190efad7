"""Wishes that settings have for pods that say nothing: words that exist, texts that can be read, no contradictions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.kubernetes.paths import lookup

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.settings.choices import WishDefault

__all__ = ["joint_problems", "wish_problems"]


def wish_problems(default: Any) -> Iterator[tuple[tuple[str, ...], str]]:
    """What is wrong with the `wish` of one default; wrong types are told elsewhere."""
    wish = lookup(default, ("wish",))
    if wish == {}:
        yield ("wish",), "is empty; write what is wished, such as product: H100*, or take the entry away"
    texts = {str(word): text for word, text in wish.items() if isinstance(text, str)} if isinstance(wish, dict) else {}
    if not texts:
        return
    from policies.nvidia.wishes import Wish, WishError  # noqa: PLC0415 - for settings that wish something only

    readable = {}
    for word, text in texts.items():
        try:
            Wish.check(word, text)
        except WishError as error:
            yield ("wish", word), f"{error}; {error.remedy}"
        else:
            readable[word] = text
    for words, contradiction in Wish.of(readable).contradictions():
        yield ("wish",), f"can never be met: {contradiction}; change or take away {' or '.join(words)}"


def joint_problems(defaults: Sequence[WishDefault]) -> Iterator[tuple[int, str]]:
    """Which of several valid defaults contradicts others wherever it holds, so that no pod there gets a GPU, and how.

    Patterns are compared as they are written: one default holds wherever another does if it has the same patterns, or
    `*`. Where others meet is known with the namespace, and pods there are refused with the reason.
    """
    if not defaults:
        return
    from policies.nvidia.wishes import Wish  # noqa: PLC0415 - for settings that wish something only

    told: set[tuple[str, frozenset[int]]] = set()
    for index, default in enumerate(defaults):
        sources = {
            word: number
            for number, other in enumerate(defaults)
            if "*" in other.namespaces or set(default.namespaces) <= set(other.namespaces)
            for word in other.wish
        }
        together = Wish.of({word: defaults[number].wish[word] for word, number in sources.items()})
        for words, contradiction in together.contradictions():
            involved = frozenset(sources[word] for word in words)
            if (contradiction, involved) not in told:
                told.add((contradiction, involved))
                others = " and ".join(f"wishes[{number}]" for number in sorted(involved - {index}))
                yield index, f"can never be met together with {others}: {contradiction}; change one of them"
