"""Selectors: label selectors in their text form, and conditions on the labels of nodes as values."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from policies.kubernetes.names import is_label_key, is_label_value, printable
from policies.kubernetes.quantities import INT64_MAX, INT64_MIN, parse_integer

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


TextOperator = Literal["in", "notin", "=", "==", "!=", ">", "<", "exists", "!"]

_TOKEN = re.compile(r"[ \t\r\n]*(?P<symbol>==|!=|[=!()<>,])|[ \t\r\n]*(?P<word>[^ \t\r\n=!()<>,]+)|[ \t\r\n]+$")
_INTEGER = re.compile(r"[+-]?[0-9]{1,63}")
_END = ""
_SYMBOLS = frozenset(["=", "==", "!=", "!", "(", ")", "<", ">", ","])
_OPERATORS: dict[str, TextOperator] = {
    "=": "=",
    "==": "==",
    "!=": "!=",
    ">": ">",
    "<": "<",
    "in": "in",
    "notin": "notin",
}


class LabelSelectorError(ValueError):
    """A text that is no label selector; its message says what stands in the way."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """One of the conditions, separated by commas, that labels must meet together."""

    key: str
    operator: TextOperator
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


def _check_values(key: str, operator: TextOperator, values: frozenset[str]) -> None:
    for value in sorted(values):
        if operator in (">", "<") and not _INTEGER.fullmatch(value):
            raise LabelSelectorError(
                f"{_quote_token(value)} is not a whole number, and {_quote_token(key)} is compared with {operator}"
            )
        if not is_label_value(value):
            raise LabelSelectorError(f"{_quote_token(value)} cannot be the value of a label")


def _quote_token(token: str) -> str:
    return f'"{token}"' if token else "the end"


Operator = Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]

_SHOWN_VALUES = 5


@dataclass(frozen=True, slots=True)
class NodeRequirement:
    """One condition on one label of a node, printed as `nvidia.com/gpu.product In [Tesla-T4, NVIDIA-L4]`.

    Source: k8s.io/apimachinery/pkg/labels NewRequirement, Requirement.Matches; policies.kubernetes.nodes reads the same
    for many nodes at once.

    Raises:
        ValueError: it is malformed: `In` or `NotIn` without values, `Exists` or `DoesNotExist` with values, `Gt` or
            `Lt` with anything but one whole number of 64 bits.
    """

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not _is_well_formed(self.operator, self.values):
            raise ValueError(f"{self} is not a requirement on a node: {self.operator} does not take these values")

    def __str__(self) -> str:
        values = list(self.values[:_SHOWN_VALUES])
        if len(self.values) > _SHOWN_VALUES:
            values.append(f"and {len(self.values) - _SHOWN_VALUES} more")
        match self.operator:
            case "In" | "NotIn":
                shown = f" [{', '.join(values)}]"
            case _:
                shown = "".join(f" {value}" for value in values)
        return printable(f"{self.key} {self.operator}{shown}")

    @classmethod
    def read(cls, expression: Mapping[str, Any]) -> NodeRequirement | None:
        """The requirement that an expression of a node selector term is; None where it is malformed.

        A malformed expression matches no node, and so does the term that it is in.
        """
        operator: Any = expression.get("operator")
        values = tuple(expression.get("values") or ())
        if not _is_well_formed(operator, values):
            return None
        return cls(expression.get("key") or "", operator, values)

    def expression(self) -> dict[str, Any]:
        """It as an expression of a node selector term."""
        expression: dict[str, Any] = {"key": self.key, "operator": self.operator}
        if self.values:
            expression["values"] = list(self.values)
        return expression

    def holds(self, labels: Mapping[str, str]) -> bool:
        """True if a node with these labels meets it. Missing labels meet `NotIn` and `DoesNotExist`."""
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value in self.values
            case "NotIn":
                return value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
            case "Gt" | "Lt":
                return value is not None and _contains(_numbers(self), value)


def term_requirements(term: Mapping[str, Any]) -> tuple[NodeRequirement, ...] | None:
    """The label requirements of a node selector term; None for an empty or malformed term.

    Such a term matches no node. Source: policies.kubernetes.nodes.
    """
    expressions, field_expressions = term.get("matchExpressions") or [], term.get("matchFields") or []
    if not expressions and not field_expressions:
        return None
    for expression in field_expressions:
        if expression.get("operator") not in ("In", "NotIn") or len(expression.get("values") or []) != 1:
            return None
    requirements = [NodeRequirement.read(expression) for expression in expressions]
    known = tuple(requirement for requirement in requirements if requirement is not None)
    return known if len(known) == len(requirements) else None


Alternatives = tuple[tuple[NodeRequirement, ...], ...]
"""Requirements AND-ed within a branch, branches OR-ed: `((),)` always holds, `()` never."""

ALWAYS: Alternatives = ((),)


def both(first: Alternatives, second: Alternatives) -> Alternatives:
    """The alternatives of both together, distributed.

    Nothing is in a branch twice; a branch that cannot hold is left out, and one that has all that another has and more.
    """
    branches: dict[frozenset[NodeRequirement], tuple[NodeRequirement, ...]] = {}
    for left in first:
        for right in second:
            branch = tuple(dict.fromkeys((*left, *right)))
            if can_hold(branch):
                branches.setdefault(frozenset(branch), branch)
    return tuple(branch for met, branch in branches.items() if not any(other < met for other in branches))


def can_hold(requirements: Iterable[NodeRequirement]) -> bool:
    """True if some node could meet all requirements; False only where no labels at all can do so."""
    return Conjunction(requirements).can_hold()


class Conjunction:
    """Requirements AND-ed, of which many questions are asked."""

    def __init__(self, requirements: Iterable[NodeRequirement]) -> None:
        self._by_key = _by_key(requirements)
        self._labels = {key: _Label.of(of_key) for key, of_key in self._by_key.items()}
        self._is_possible = all(label.is_possible for label in self._labels.values())

    def can_hold(self, more: Iterable[NodeRequirement] = ()) -> bool:
        """True if some node could meet all of them and `more`; False only where no labels at all can do so."""
        return self._is_possible and all(
            _Label.of([*self._by_key.get(key, ()), *of_key]).is_possible for key, of_key in _by_key(more).items()
        )

    def implies(self, requirement: NodeRequirement) -> bool:
        """True if every node that meets all of them certainly meets another one too.

        No node meets requirements that cannot hold together; they imply everything.
        """
        return not self._is_possible or self._labels.get(requirement.key, _ANYTHING).implies(requirement)


@dataclass(frozen=True, slots=True)
class _Label:
    """The values that requirements on one label, AND-ed, leave."""

    may_be_missing: bool = True
    may_be_present: bool = True
    among: frozenset[str] | None = None
    """The only values it may have; None where it may have any."""
    excluded: frozenset[str] = frozenset()
    numbers: range | None = None
    """The numbers of which it must be one; None where it may be no number at all."""

    @classmethod
    def of(cls, requirements: Iterable[NodeRequirement]) -> _Label:
        operators: set[Operator] = set()
        among: frozenset[str] | None = None
        excluded: set[str] = set()
        numbers: range | None = None
        for requirement in requirements:
            operators.add(requirement.operator)
            match requirement.operator:
                case "In":
                    among = frozenset(requirement.values if among is None else among.intersection(requirement.values))
                case "NotIn":
                    excluded.update(requirement.values)
                case "Gt" | "Lt":
                    numbers = _common(numbers, _numbers(requirement))
        return cls(
            may_be_missing=operators <= {"NotIn", "DoesNotExist"},
            may_be_present="DoesNotExist" not in operators,
            among=among,
            excluded=frozenset(excluded),
            numbers=numbers,
        )

    def admits(self, value: str) -> bool:
        """True if it may have this value."""
        return (
            self.may_be_present
            and value not in self.excluded
            and (self.among is None or value in self.among)
            and (self.numbers is None or _contains(self.numbers, value))
        )

    @property
    def values(self) -> list[str] | None:
        """All values it may have; None where there is no end of them.

        One number has many texts (`5`, `05`, `005`), so that even a single number is no end.
        """
        if not self.may_be_present or self.numbers == range(0):
            return []
        return None if self.among is None else [value for value in self.among if self.admits(value)]

    @property
    def is_possible(self) -> bool:
        """True if anything is left, be it that the label is missing."""
        return self.may_be_missing or self.values != []

    def implies(self, requirement: NodeRequirement) -> bool:
        """True if a requirement on this label is met by everything that is left for it."""
        met = _Label.of([requirement])
        if self.may_be_missing and not met.may_be_missing:
            return False
        values = self.values
        if values is not None:
            return all(map(met.admits, values))
        match requirement.operator:
            case "Exists":
                return True
            case "NotIn":
                return not any(self.admits(value) for value in requirement.values)
            case "Gt" | "Lt":
                return self.numbers is not None and _common(met.numbers, self.numbers) == self.numbers
            case _:
                return False


_ANYTHING = _Label()


def _by_key(requirements: Iterable[NodeRequirement]) -> dict[str, list[NodeRequirement]]:
    by_key: dict[str, list[NodeRequirement]] = {}
    for requirement in requirements:
        by_key.setdefault(requirement.key, []).append(requirement)
    return by_key


def _is_well_formed(operator: Any, values: tuple[str, ...]) -> bool:
    match operator:
        case "In" | "NotIn":
            return bool(values)
        case "Exists" | "DoesNotExist":
            return not values
        case "Gt" | "Lt":
            return len(values) == 1 and parse_integer(values[0]) is not None
        case _:
            return False


def _numbers(requirement: NodeRequirement) -> range:
    """The numbers of 64 bits that meet a `Gt` or `Lt`."""
    bound = int(requirement.values[0])
    return range(bound + 1, INT64_MAX + 1) if requirement.operator == "Gt" else range(INT64_MIN, bound)


def _common(first: range | None, second: range) -> range:
    return second if first is None else range(max(first.start, second.start), min(first.stop, second.stop))


def _contains(numbers: range, value: str) -> bool:
    number = parse_integer(value)
    return number is not None and number in numbers
