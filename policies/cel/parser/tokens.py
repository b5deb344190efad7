"""Tokens of CEL, as cel-go's lexer splits them, and a place among them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet


def terminal(name: str) -> str:
    """The regular expression of one of cel.lark's terminals."""
    from policies.cel.parser.grammar import cel_parser

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
    """A text that could have become a token up to its last character."""

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
    # Not possessive: Python before 3.11.5 then loses its place in an escape. What follows always matches, so nothing is retried.
    string = "|".join(rf"{quote}(?:{_ESCAPE}|[^\\\n\r{quote}])*(?:{_ESCAPE_BEGUN})?" for quote in "\"'")
    return rf"(?:{string}|`[A-Za-z0-9_.\-/ ]*+|[=&|]|)[\s\S]?"


NAMES = frozenset({"IDENTIFIER", "ESC_IDENTIFIER"})
"""The kinds of tokens that can be the name of a field."""

PRIMARIES = frozenset({"[", "{", "(", ".", "IDENTIFIER"}) | LITERALS
"""The first tokens of an operand without a sign."""

OPERANDS = PRIMARIES | {"-", "!"}
"""The first tokens of an operand."""

FIRST_EXTRAS = {
    "list": frozenset({"]", ",", "?"}),
    "key": frozenset({"}", ",", "?"}),
    "field": frozenset({"}", ",", "?"}),
    "call": frozenset({")"}),
    "index": frozenset({"?"}),
}
"""Further first tokens of a construct that has just been opened, by its kind."""

_IN_ORDER = (
    *("==", "!=", "in", "<", "<=", ">=", ">", "&&", "||", "[", "]", "{", "}", "(", ")", ".", ",", "-", "!", "?", ":"),
    *("+", "*", "/", "%", "true", "false", "null", "NUM_FLOAT", "NUM_INT", "NUM_UINT", "STRING", "BYTES"),
    *("IDENTIFIER", "ESC_IDENTIFIER", END),
)

_UNQUOTED = NAMES | LITERALS - {"true", "false", "null"} | {END}


def token_list(kinds: AbstractSet[str]) -> str:
    """Kinds of tokens as ANTLR lists them: `':'`, or `{']', ','}`."""
    shown = [kind if kind in _UNQUOTED else f"'{kind}'" for kind in _IN_ORDER if kind in kinds]
    return shown[0] if len(shown) == 1 else f"{{{', '.join(shown)}}}"


def quoted_token(text: str) -> str:
    """Source text as ANTLR quotes it."""
    return "'" + text.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t") + "'"


_WORD_BEHIND_ANY = re.compile(r".(true|false|null)")


class Mistake(NamedTuple):
    """A mistake at an offset; at no place at all if that is None."""

    offset: int | None
    message: str


class TokenCursor:
    """Goes from token to token; the last is END."""

    def __init__(self, text: str, tokens: tuple[Token, ...]) -> None:
        self._text = text
        self._tokens = tokens
        self._index = 0
        self._recovering = False
        self.mistakes: list[Mistake] = []

    @property
    def token(self) -> Token:
        """The token to be read next."""
        return self._tokens[self._index]

    def ahead(self, distance: int) -> Token:
        """A token behind the next, or END."""
        return self._tokens[min(self._index + distance, len(self._tokens) - 1)]

    def accept(self) -> None:
        """Go on behind a token that is as it should be."""
        self.skip()
        self._recovering = False

    def skip(self, count: int = 1) -> None:
        """Go on behind tokens without a judgement on them."""
        self._index = min(self._index + count, len(self._tokens) - 1)

    def skip_to(self, kinds: AbstractSet[str]) -> None:
        """Go on to the next token of certain kinds, END among them."""
        while self.token.kind not in kinds:
            self.skip()

    def skip_extraneous(self, expected: AbstractSet[str]) -> None:
        """Note one token too many, and go on behind it."""
        self.extraneous(expected)
        self.skip()

    def extraneous(self, expected: AbstractSet[str]) -> None:
        """Note a token that is too many."""
        self._report(self.token, f"extraneous input {quoted_token(self.token.text)} expecting {token_list(expected)}")

    def report_mismatch(self, expected: AbstractSet[str]) -> None:
        """Note a token that is another than expected."""
        self._report(self.token, f"mismatched input {quoted_token(self.token.text)} expecting {token_list(expected)}")

    def report_missing(self, expected: AbstractSet[str]) -> None:
        """Note that a token is missing before the next."""
        self._report(self.token, f"missing {token_list(expected)} at {quoted_token(self.token.text)}")

    def no_alternative(self, first: Token, last: Token) -> None:
        """Note that no rule begins with the tokens from the first to the last."""
        end = len(self._text) if last.kind == END else last.offset + len(last.text)
        read = self._text[first.offset : end]
        word = _WORD_BEHIND_ANY.fullmatch(read)
        if word:  # cel-go's own exception, which keeps an old message
            self._report(last, f"mismatched input '{word[1]}' expecting IDENTIFIER")
        else:
            self._report(last, f"no viable alternative at input {quoted_token(read)}")

    def _report(self, token: Token, message: str) -> None:
        """Note a mistake; until a token is accepted, others may only be its consequences."""
        if not self._recovering:
            self.mistakes.append(Mistake(token.offset, message))
        self._recovering = True
