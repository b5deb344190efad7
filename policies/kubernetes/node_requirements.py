"""Node requirements: conditions on the labels of nodes as values, and what follows from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from policies.kubernetes.printable import printable
from policies.kubernetes.quantities import INT64_MAX, INT64_MIN, parse_integer

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = [
    "ALWAYS",
    "Alternatives",
    "Conjunction",
    "NodeRequirement",
    "Operator",
    "both",
    "can_hold",
    "term_requirements",
]

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
    """What holds where both hold, distributed.

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
    """What requirements on one label, AND-ed, leave it to be."""

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
