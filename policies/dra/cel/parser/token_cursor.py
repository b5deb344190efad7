"""A place among tokens, the tokens that can come there, and mistakes so far in ANTLR's words."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from policies.dra.cel.parser.tokens import END, LITERALS

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from policies.dra.cel.parser.tokens import Token

__all__ = ["FIRST_EXTRAS", "NAMES", "OPERANDS", "PRIMARIES", "Mistake", "TokenCursor"]

NAMES = frozenset({"IDENTIFIER", "ESC_IDENTIFIER"})
"""What can be the name of a field."""

PRIMARIES = frozenset({"[", "{", "(", ".", "IDENTIFIER"}) | LITERALS
"""What an operand without a sign begins with."""

OPERANDS = PRIMARIES | {"-", "!"}
"""What an operand begins with."""

FIRST_EXTRAS = {
    "list": frozenset({"]", ",", "?"}),
    "key": frozenset({"}", ",", "?"}),
    "field": frozenset({"}", ",", "?"}),
    "call": frozenset({")"}),
    "index": frozenset({"?"}),
}
"""What else can come first in something that has just been opened, by its kind."""

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
