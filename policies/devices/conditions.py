"""Conditions: the common forms of a conjunct, and why one does not match a device, in plain words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from policies.cel import (
    Call,
    CelCompileError,
    Identifier,
    ListLiteral,
    Literal,
    Read,
    Select,
    UInt,
    parse,
    split_conjuncts,
)
from policies.kubernetes.bounds import count_work, remember
from policies.kubernetes.names import format_list, shorten

if TYPE_CHECKING:
    from collections.abc import Callable

    from policies.cel import Conjunct, Expression


_COMPARISONS = {"_==_": "==", "_!=_": "!=", "_<_": "<", "_<=_": "<=", "_>_": ">", "_>=_": ">="}
_MIRRORED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_METHODS = {"isGreaterThan": ">", "isLessThan": "<"}
_TEXTUAL = frozenset({"startsWith", "endsWith", "contains", "matches"})
_VALUES = frozenset({"quantity", "semver"})
_MOST_BYTES = 2 << 20
"""Of all conjuncts in the cache, with what was read from them."""


@dataclass(frozen=True, slots=True)
class Condition:
    """The requirement of a conjunct on one part of a device."""

    read: Read
    operator: str
    """`==`, `!=`, `<`, `<=`, `>`, `>=`, `in`, `has`, `true`, `false`, or a function of texts such as `startsWith`."""
    values: tuple[str | int | float | bool, ...] = ()
    """The required value, or those of a list."""
    value_kind: str = ""
    """`quantity` or `semver` if such values are compared; empty for plain values."""


def _weight(text: str, found: Condition | None) -> int:
    return 500 + 2 * len(text) + (0 if found is None else 100 * len(found.values))


@remember(_MOST_BYTES, _weight)
def read_condition(text: str) -> Condition | None:
    """The requirement of a conjunct; None if it has none of the common forms."""
    root = _parse_or_none(text)
    return None if root is None else _condition(root)


def _weight_of_reads(text: str, found: tuple[Read, ...]) -> int:
    return 500 + 2 * len(text) + 300 * len(found)


@remember(_MOST_BYTES, _weight_of_reads)
def device_reads(text: str) -> tuple[Read, ...]:
    """The parts of a device that an expression names, each once, in the order of the text."""
    root = _parse_or_none(text)
    found: dict[Read, None] = {}
    pending = [] if root is None else [root]
    while pending:
        node = pending.pop()
        read = _read(node)
        if read is not None:
            found[read] = None
        elif isinstance(node, Select):
            pending.append(node.operand)
        elif isinstance(node, Call):
            pending += reversed([*([node.target] if node.target is not None else []), *node.arguments])
        elif isinstance(node, ListLiteral):
            pending += reversed(node.elements)
    return tuple(found)


def _parse_or_none(text: str) -> Expression | None:
    count_work(10 * len(text))
    try:
        return parse(text, escaped_names=True)
    except CelCompileError:
        return None


def _condition(node: Expression) -> Condition | None:
    match node:
        case Select(test_only=True):
            read = _read(node)
            return None if read is None else Condition(read, "has")
        case Call(function="!_", arguments=(operand,)):
            read = None if isinstance(operand, Select) and operand.test_only else _read(operand)
            return None if read is None else Condition(read, "false")
        case Call(function="@in", arguments=(Literal(value=str(name)), container)):
            domain = _domain(container)
            return None if domain is None else Condition(Read(*domain, name), "has")
        case Call(function="@in", arguments=(operand, ListLiteral(elements=elements))):
            return _membership(operand, elements)
        case Call(function=function, arguments=(left, right)) if function in _COMPARISONS:
            operator = _COMPARISONS[function]
            return _comparison(left, operator, right) or _comparison(right, _MIRRORED[operator], left)
        case Call(function=function, target=target, arguments=(argument,)) if target is not None:
            return _method(function, target, argument)
        case _:
            read = _read(node)
            return None if read is None else Condition(read, "true")


def _membership(operand: Expression, elements: tuple[Expression, ...]) -> Condition | None:
    read, values = _read(_without_spelling(operand)), [_constant(element) for element in elements]
    if read is None or not values or any(value is None for value in values):
        return None
    return Condition(read, "in", tuple(value for value in values if value is not None))


def _comparison(left: Expression, operator: str, right: Expression) -> Condition | None:
    """`part OP value`, or `part.compareTo(value) OP 0`."""
    if isinstance(left, Call) and left.function == "compareTo" and left.target is not None:
        if not isinstance(right, Literal) or right.value != 0 or len(left.arguments) != 1:
            return None
        return _typed_comparison(left.target, operator, left.arguments[0])
    read, value = _read(_without_spelling(left)), _constant(right)
    if read is not None and value is not None:
        return Condition(read, operator, (value,))
    return _typed_comparison(left, operator, right)


def _without_spelling(node: Expression) -> Expression:
    """The operand of a change of spelling: labels have dashes where names have blanks.

    Any other replacement may compare with the name of another product.
    """
    match node:
        case Call(function="lowerAscii", target=target) if target is not None:
            return target
        case Call(function="replace", target=target, arguments=(Literal(value=" "), Literal(value="-"))) if (
            target is not None
        ):
            return target
        case _:
            return node


def _method(function: str, target: Expression, argument: Expression) -> Condition | None:
    if function in _METHODS:
        return _typed_comparison(target, _METHODS[function], argument)
    read, value = _read(target), _constant(argument)
    if function in _TEXTUAL and read is not None and isinstance(value, str):
        return Condition(read, function, (value,))
    return None


def _typed_comparison(operand: Expression, operator: str, value: Expression) -> Condition | None:
    read = _read(operand)
    match value:
        case Call(function=kind, target=None, arguments=(Literal(value=str(text)),)) if kind in _VALUES:
            return None if read is None else Condition(read, operator, (text,), kind)
        case _:
            return None


def _constant(node: Expression) -> str | int | float | bool | None:
    """The value of a constant; None for an unsigned number and for anything else."""
    if isinstance(node, Literal) and isinstance(node.value, str | int | float) and not isinstance(node.value, UInt):
        return node.value
    return None


def _read(node: Expression) -> Read | None:
    """The part of a device that an expression reads; None if it is something else."""
    match node:
        case Select(operand=Identifier(name="device"), field=("driver" | "allowMultipleAllocations") as kind):
            return Read(kind)
        case Select(operand=operand, field=name) if (domain := _domain(operand)) is not None:
            return Read(*domain, name)
        case Call(function="_[_]", arguments=(operand, Literal(value=str(name)))):
            domain = _domain(operand)
            return None if domain is None else Read(*domain, name)
        case _:
            return None


def _domain(node: Expression) -> tuple[str, str] | None:
    """The map and the domain of `device.attributes["domain"]` or `device.capacity["domain"]`; else None."""
    match node:
        case Call(
            function="_[_]",
            arguments=(
                Select(operand=Identifier(name="device"), field=("attributes" | "capacity") as kind),
                Literal(value=str(domain)),
            ),
        ):
            return kind, domain
        case _:
            return None


_MOST_VALUES = 4
_WANTED = {
    "==": "{}",
    "!=": "anything but {}",
    "<": "less than {}",
    "<=": "at most {}",
    ">": "more than {}",
    ">=": "{}",
    "in": "{}",
    "startsWith": 'one that starts with "{}"',
    "endsWith": 'one that ends with "{}"',
    "contains": 'one that contains "{}"',
    "matches": 'one that matches "{}"',
}
_WANTED_VERSION = {"<": "one before {}", "<=": "{} or earlier", ">": "one after {}", ">=": "{} or later"}
_WANTED_NUMBER = {">=": "at least {}"}


@dataclass(frozen=True, slots=True)
class FailedCondition:
    """The reason why a selector does not match a device, as predicates in the singular."""

    text: str
    """`has 40Gi of memory, 80Gi asked`."""
    gist: str
    """The same without what this one device has."""


def failing_conjunct(selector: str, is_true: Callable[[str], bool | None]) -> Conjunct | None:
    """The first condition of a selector that is false for a device; None if none is false by itself.

    Args:
        selector: what does not match the device.
        is_true: whether an expression is true of the device; None if it fails.
    """
    parts = split_conjuncts(selector)
    return parts[0] if len(parts) == 1 else next((part for part in parts if is_true(part.text) is False), None)


def describe_failure(text: str, value_of: Callable[[Read], str | None]) -> FailedCondition:
    """Describe why a condition is false for a device.

    Args:
        text: the condition, best one conjunct of a selector.
        value_of: the value of the device, as text; None if it is missing.
    """
    condition = read_condition(text)
    failure = None if condition is None else _common_failure(condition, value_of(condition.read))
    return failure or _plain_failure(text, value_of)


def _common_failure(condition: Condition, has: str | None) -> FailedCondition | None:
    name = condition.read.name or ""
    if condition.operator == "has":
        what = "capacity" if condition.read.part == "capacity" else "attribute"
        return FailedCondition(f"has no {what} {name}", f"has no {what} {name}")
    if has is None:
        return None
    wanted = _wanted_value(condition)
    match condition.read.part:
        case "driver":
            own, other = f"is of driver {shorten(has)}", "is of another driver"
        case "allowMultipleAllocations":
            own = other = f"is {'for one claim only' if has == 'false' else 'for several claims at once'}"
            wanted = "the opposite"
        case "capacity":
            own, other = f"has {shorten(has)} of {name}", f"has another amount of {name}"
        case _:
            own, other = f"has {name} {shorten(has)}", f"has another {name}"
    return FailedCondition(f"{own}, {wanted} requested", f"{other}, {wanted} requested")


def _wanted_value(condition: Condition) -> str:
    if condition.operator in ("true", "false"):
        return condition.operator
    values = [str(each).lower() if isinstance(each, bool) else shorten(str(each)) for each in condition.values]
    form = _WANTED[condition.operator]
    if condition.value_kind == "semver":
        form = _WANTED_VERSION.get(condition.operator, form)
    elif not condition.value_kind:
        form = _WANTED_NUMBER.get(condition.operator, form)
    return form.format(values[0] if len(values) == 1 else f"one of {format_list(values)}")


def _plain_failure(text: str, value_of: Callable[[Read], str | None]) -> FailedCondition:
    """The condition itself, and the values that it reads."""
    values = [(read.name or read.part, value_of(read)) for read in device_reads(text)]
    has = [f"{name} is {'missing' if value is None else shorten(value)}" for name, value in values]
    gist = f"does not satisfy {shorten(text)}"
    return FailedCondition(f"{gist} ({format_list(has, _MOST_VALUES)})" if has else gist, gist)
