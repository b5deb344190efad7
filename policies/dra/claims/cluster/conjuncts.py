"""The terms of a selector that must all be true, as texts, so that each can be asked by itself."""

from __future__ import annotations

from policies.dra.cel.parser.tokens import END, tokens_of

__all__ = ["conjuncts"]

_OPENING = "([{"
_CLOSING = ")]}"
_LOOSER = frozenset({"||", "?"})
"""Operators that bind less than `&&` does."""


def conjuncts(text: str) -> list[str]:
    """The terms of an expression that compiles; the whole of it where it is no conjunction."""
    depth, begins, terms = 0, 0, []
    tokens = tokens_of(text).tokens
    for token in tokens:
        if token.kind in _OPENING and token.kind != END:
            depth += 1
        elif token.kind in _CLOSING:
            depth -= 1
        elif depth == 0 and token.kind in _LOOSER:
            return [text.strip()]
        elif depth == 0 and token.kind == "&&":
            terms.append(text[begins : token.offset].strip())
            begins = token.offset + len(token.text)
    terms.append(text[begins:].strip())
    return [part for term in terms for part in _inner(term)]


def _inner(term: str) -> list[str]:
    """The terms inside of parentheses that are around the whole."""
    tokens = tokens_of(term).tokens[:-1]
    if len(tokens) < 3 or tokens[0].kind != "(" or tokens[-1].kind != ")":
        return [term]
    depth = 0
    for token in tokens[:-1]:
        depth += (token.kind in _OPENING) - (token.kind in _CLOSING)
        if depth == 0:
            return [term]
    return conjuncts(term[tokens[0].offset + 1 : tokens[-1].offset])
