"""Tokens of CEL, as cel-go's lexer splits them.

lark's lexer knows which tokens can come next and stops at the first that cannot. `tokens_of` is for what that is not
enough for: to explain what is wrong, and to count how deep an expression nests before it is parsed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

__all__ = ["END", "LITERALS", "Tokens", "tokens_of"]


def terminal(name: str) -> str:
    """The regular expression of one of cel.lark's terminals."""
    from policies.dra.cel.parser.grammar import cel_parser

    return cel_parser().get_terminal(name).pattern.to_regexp()


END = "<EOF>"
LITERALS = frozenset({"true", "false", "null", "NUM_FLOAT", "NUM_INT", "NUM_UINT", "STRING", "BYTES"})

_NAMED = ("NUM_FLOAT", "NUM_UINT", "NUM_INT", "BYTES", "STRING", "IDENTIFIER", "ESC_IDENTIFIER")
"""Terminals of cel.lark, in the order in which they are tried."""

_IGNORED = r"[\t\n\f\r ]+|//[^\n]*"
_ITSELF = r"==|!=|<=|>=|&&|\|\||[-<>\[\]{}().,!?:+*/%]|(?:in|true|false|null)(?![A-Za-z0-9_])"

_ESCAPE = r"""\\(?:[abfnrtv"'\\?`]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7]{2})"""
_ESCAPE_BEGUN = r"\\(?:[xX][0-9a-fA-F]?|u[0-9a-fA-F]{0,3}|U[0-9a-fA-F]{0,7}|[0-3][0-7]?)?"


class Token(NamedTuple):
    """A token; its kind is the text itself for signs and words, else the name of the terminal."""

    kind: str
    text: str
    offset: int


class Unrecognized(NamedTuple):
    """What could have become a token up to its last character."""

    text: str
    offset: int


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens of an expression, END last, and what is between them."""

    tokens: tuple[Token, ...]
    unrecognized: tuple[Unrecognized, ...]


def tokens_of(text: str) -> Tokens:
    """All tokens; other text is skipped."""
    tokens: list[Token] = []
    unrecognized: list[Unrecognized] = []
    pattern = _pattern()
    position = 0
    while position < len(text):
        match = pattern.match(text, position)
        if match is None or match.lastgroup is None:
            raise AssertionError(position)
        position = match.end()
        if match.lastgroup == "NONE":
            unrecognized.append(Unrecognized(match[0], match.start()))
        elif match.lastgroup != "IGNORED":
            kind = match[0] if match.lastgroup == "ITSELF" else match.lastgroup
            tokens.append(Token(kind, match[0], match.start()))
    tokens.append(Token(END, END, len(text)))
    return Tokens(tuple(tokens), tuple(unrecognized))


@cache
def _pattern() -> re.Pattern[str]:
    named = {"IGNORED": _IGNORED, **{name: terminal(name) for name in _NAMED}, "ITSELF": _ITSELF, "NONE": _none()}
    return re.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern in named.items()))


def _none() -> str:
    """The regular expression of the longest beginning of any token, and the character that spoils it."""
    string = "|".join(rf"{quote}(?:{_ESCAPE}|[^\\\n\r{quote}])*+(?:{_ESCAPE_BEGUN})?" for quote in "\"'")
    return rf"(?:{string}|`[A-Za-z0-9_.\-/ ]*+|[=&|]|)[\s\S]?"
