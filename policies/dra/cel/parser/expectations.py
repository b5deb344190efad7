"""Which tokens can come where, and how ANTLR lists them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.dra.cel.parser.tokens import END, LITERALS

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

__all__ = ["FIRST_EXTRAS", "NAMES", "OPERANDS", "PRIMARIES", "listed", "quoted"]

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


def listed(kinds: AbstractSet[str]) -> str:
    """Kinds of tokens as ANTLR lists them: `':'`, or `{']', ','}`."""
    shown = [kind if kind in _UNQUOTED else f"'{kind}'" for kind in _IN_ORDER if kind in kinds]
    return shown[0] if len(shown) == 1 else f"{{{', '.join(shown)}}}"


def quoted(text: str) -> str:
    """Source text as ANTLR quotes it."""
    return "'" + text.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t") + "'"
