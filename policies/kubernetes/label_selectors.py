"""Label selectors in their text form: `a=b,c!=d,e in (f,g),!h`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from policies.kubernetes.names import is_label_key, is_label_value

__all__ = ["LabelSelectorError", "Requirement", "parse_label_selector"]

Operator = Literal["in", "notin", "=", "==", "!=", ">", "<", "exists", "!"]

_TOKEN = re.compile(r"[ \t\r\n]*(?P<symbol>==|!=|[=!()<>,])|[ \t\r\n]*(?P<word>[^ \t\r\n=!()<>,]+)|[ \t\r\n]+$")
_INTEGER = re.compile(r"[+-]?[0-9]{1,63}")
_END = ""
_SYMBOLS = frozenset(["=", "==", "!=", "!", "(", ")", "<", ">", ","])
_OPERATORS: dict[str, Operator] = {"=": "=", "==": "==", "!=": "!=", ">": ">", "<": "<", "in": "in", "notin": "notin"}


class LabelSelectorError(ValueError):
    """A text that is no label selector; its message says what stands in the way."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """One of the conditions, separated by commas, that labels must meet together."""

    key: str
    operator: Operator
    values: frozenset[str] = frozenset()


def parse_label_selector(text: str) -> tuple[Requirement, ...]:
    """The requirements of a selector, in the order in which they are written; none for an empty text.

    Whatever the API server and kubectl accept is accepted, and nothing else.

    Source: k8s.io/apimachinery/pkg/labels/selector.go Parse.

    Raises:
        LabelSelectorError: it is no label selector.
    """
    tokens = _Tokens(text)
    requirements: list[Requirement] = []
    if tokens.next == _END:
        return ()
    while True:
        requirements.append(_requirement(tokens))
        if (found := tokens.take()) == _END:
            return tuple(requirements)
        if found != ",":
            raise LabelSelectorError(
                f"{_quote_token(found)} follows {_quote_token(requirements[-1].key)} where a comma or the end is expected"
            )


class _Tokens:
    """The words and symbols of a text, one after the other; for ever the end after the last."""

    def __init__(self, text: str) -> None:
        self._tokens = [match["symbol"] or match["word"] or _END for match in _TOKEN.finditer(text)]
        self._position = 0

    @property
    def next(self) -> str:
        return self._tokens[self._position] if self._position < len(self._tokens) else _END

    def take(self) -> str:
        token = self.next
        self._position += 1
        return token


def _requirement(tokens: _Tokens) -> Requirement:
    absent = tokens.next == "!"
    if absent:
        tokens.take()
    key = tokens.take()
    if key in _SYMBOLS or key == _END:
        raise LabelSelectorError(f"{_quote_token(key)} stands where the key of a label is expected")
    if not is_label_key(key):
        raise LabelSelectorError(f"{_quote_token(key)} cannot be the key of a label")
    if absent or tokens.next in (_END, ","):
        return Requirement(key, "!" if absent else "exists")
    found = tokens.take()
    operator = _OPERATORS.get(found)
    if operator is None:
        raise LabelSelectorError(
            f"{_quote_token(found)} follows {_quote_token(key)} where one of =, ==, !=, in, notin, <, > is expected"
        )
    values = _set(tokens, key) if operator in ("in", "notin") else frozenset([_value(tokens, key)])
    _check_values(key, operator, values)
    return Requirement(key, operator, values)


def _value(tokens: _Tokens, key: str) -> str:
    """The value after `=` and its like; the empty one where nothing follows, as in `a=,b`."""
    if tokens.next in (_END, ","):
        return ""
    value = tokens.take()
    if value in _SYMBOLS:
        raise LabelSelectorError(f"{_quote_token(value)} stands where a value of {_quote_token(key)} is expected")
    return value


def _set(tokens: _Tokens, key: str) -> frozenset[str]:
    """The values in parentheses; between two commas, or a comma and a parenthesis, there is an empty one."""
    if (opening := tokens.take()) != "(":
        raise LabelSelectorError(
            f"{_quote_token(opening)} follows {_quote_token(key)} where ( and a list of values are expected"
        )
    values, value = set(), ""
    while True:
        found = tokens.take()
        if found in (",", ")"):
            values.add(value)
            value = ""
            if found == ")":
                return frozenset(values)
        elif found == _END or found in _SYMBOLS or value:
            raise LabelSelectorError(
                f"{_quote_token(found)} stands in the values of {_quote_token(key)} where a comma or ) is expected"
            )
        else:
            value = found


def _check_values(key: str, operator: Operator, values: frozenset[str]) -> None:
    for value in sorted(values):
        if operator in (">", "<") and not _INTEGER.fullmatch(value):
            raise LabelSelectorError(
                f"{_quote_token(value)} is not a whole number, and {_quote_token(key)} is compared with {operator}"
            )
        if not is_label_value(value):
            raise LabelSelectorError(f"{_quote_token(value)} cannot be the value of a label")


def _quote_token(token: str) -> str:
    return f'"{token}"' if token else "the end"
