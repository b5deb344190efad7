"""Abstract values: all that a part of a selector can be, while only some of a device is known."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from policies.cel import (
    Call,
    Comprehension,
    Identifier,
    ListLiteral,
    Literal,
    MapLiteral,
    Select,
    StructLiteral,
    function_name,
)

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from policies.cel import Checked, Constant, Expression, Selector


Place = tuple[str, ...]
"""A place in a device: () is the device, ("attributes",) all domains, ("attributes", domain, name) one attribute."""

ITEM = 3
"""The number of steps to an attribute or a capacity."""


class Presence(Enum):
    """The presence of a value: plain, or an optional with or without a value."""

    PLAIN = "no optional as far as is known"
    PRESENT = "an optional with a value"
    ABSENT = "an optional without one"
    EITHER = "an optional, with a value or without"


class Unset(Enum):
    """The type of the constant that is not known; None is a constant."""

    UNSET = "unset"


class Value(NamedTuple):
    """The possible values of a part of a selector. For an optional, most fields describe its content."""

    can_be_true: bool = True
    can_be_false: bool = True
    """A value that is neither counts as both, so that nothing is overlooked."""
    error: int | None = None
    """Where in the text the read is that can fail here; None if none can."""
    place: Place | None = None
    """The place of the device that it certainly is, if any."""
    holds_maps: bool = False
    """True if maps of the device may be in it, so that reading it is perhaps reading them."""
    constant: Constant | Unset = Unset.UNSET
    presence: Presence = Presence.PLAIN
    key_of: Place | None = None
    """The map that it is certainly a key of, if any."""

    @property
    def only_fails(self) -> bool:
        """True if it is nothing but an error."""
        return not self.can_be_true and not self.can_be_false

    def with_error(self, *errors: int | None) -> Value:
        """The same, which can fail, too, where any of these does."""
        first = next((error for error in (self.error, *errors) if error is not None), None)
        return self if first == self.error else self._replace(error=first)


ANYTHING = Value()
"""A value that is not known, but cannot lead to the maps of the device."""
MAPS = Value(holds_maps=True)
"""A value that is not known, and may lead to them."""


def constant(value: Constant) -> Value:
    """A value that is known."""
    if isinstance(value, bool):
        return Value(can_be_true=value, can_be_false=not value, constant=value)
    return Value(constant=value)


def truth(*, true: bool, false: bool) -> Value:
    """A bool; known if it can be only one of the two."""
    return constant(true) if true != false else Value(can_be_true=true, can_be_false=false)


def join(one: Value, other: Value) -> Value:
    """One of the two."""
    if one.only_fails:
        return other.with_error(one.error)
    if other.only_fails:
        return one.with_error(other.error)
    same = one.place == other.place
    presence = Presence.PLAIN if Presence.PLAIN in (one.presence, other.presence) else Presence.EITHER
    presence = one.presence if one.presence is other.presence else presence
    same_constant = type(one.constant) is type(other.constant) and one.constant == other.constant
    return Value(
        can_be_true=one.can_be_true or other.can_be_true,
        can_be_false=one.can_be_false or other.can_be_false,
        error=one.error if one.error is not None else other.error,
        place=one.place if same else None,
        holds_maps=one.holds_maps or other.holds_maps,
        constant=one.constant if same_constant else Unset.UNSET,
        presence=presence,
        key_of=one.key_of if one.key_of == other.key_of else None,
    )


_MAPS = ("attributes", "capacity")


@dataclass(frozen=True, slots=True)
class Assumption:
    """The known facts about the device."""

    missing: Place = ()
    """The attribute or capacity that it lacks: ("attributes", domain, name); empty for none."""
    known: Mapping[Place, str] = field(default_factory=dict)
    """Texts that it has, as ("driver",) or ("attributes", domain, name)."""


def outcome(selector: Selector, assumption: Assumption) -> Value:
    """The result of a selector on such a device: true, false, or an error where something is missing."""
    interpreter = _Interpreter(selector.checked, assumption)
    value = interpreter.leaf(selector.root, {})
    pending = [] if value is not None else [interpreter.evaluation(selector.root, {})]
    while pending:
        try:
            part = next(pending[-1]) if value is None else pending[-1].send(value)
        except StopIteration as finished:
            pending.pop()
            value = finished.value
        else:
            value = interpreter.leaf(*part)
            if value is None:
                pending.append(interpreter.evaluation(*part))
    return value or ANYTHING


if TYPE_CHECKING:
    Scope = Mapping[str, Value]
    Part = tuple[Expression, Scope]
    Evaluation = Generator[Part, Value, Value]


class _Interpreter:
    """Evaluates parts of one expression under one assumption."""

    def __init__(self, checked: Checked, assumption: Assumption) -> None:
        self._calls = checked.calls
        self._missing = assumption.missing
        self._known = assumption.known

    def leaf(self, node: Expression, scope: Scope) -> Value | None:
        """The value of a constant or a name; None for what has parts."""
        if isinstance(node, Literal):
            return constant(node.value)
        if isinstance(node, Identifier):
            device = Value(place=(), holds_maps=True) if node.name.removeprefix(".") == "device" else ANYTHING
            return scope.get(node.name, device)
        return None

    def evaluation(self, node: Expression, scope: Scope) -> Evaluation:
        """The evaluation of an expression with parts; it yields each part to get its value."""
        match node:
            case Select():
                return self._select(node, scope)
            case Call():
                return self._call(node, scope)
            case ListLiteral():
                return self._container(node.elements, scope)
            case MapLiteral():
                parts = [part for entry in node.entries for part in (entry.key, entry.value)]
                return self._container([part for part in parts if not isinstance(part, str)], scope)
            case StructLiteral():
                return self._container([entry.value for entry in node.fields], scope)
            case Comprehension():
                return self._comprehension(node, scope)
        raise AssertionError(node)

    def _select(self, node: Select, scope: Scope) -> Evaluation:
        operand = yield node.operand, scope
        key = constant(node.field)
        return self._presence_test(operand, key) if node.test_only else self._read(operand, key, node.offset)

    def _call(self, node: Call, scope: Scope) -> Evaluation:
        name = function_name(node, self._calls.get(node))
        arguments = node.arguments if node.target is None else (node.target, *node.arguments)
        if name in ("_&&_", "_||_"):
            return (yield from self._logic(arguments, scope, decider=name == "_||_"))
        if name == "_?_:_":
            return (yield from self._choice(arguments, scope))
        if name in ("or", "orValue") and node.target is not None:
            return (yield from self._otherwise(arguments, scope, unwraps=name == "orValue"))
        reference = self._calls.get(node)
        if reference is not None and reference.is_namespaced:
            arguments = node.arguments
        values = []
        for argument in arguments:
            values.append((yield argument, scope))  # noqa: PERF401 - a comprehension cannot yield
        return self._call_result(name, values, node.offset)

    def _logic(self, arguments: tuple[Expression, ...], scope: Scope, *, decider: bool) -> Evaluation:
        """`&&` and `||`; if the first operand decides the result, the second is not evaluated."""
        left = yield arguments[0], scope
        if left.error is None and not _can_be(left, not decider):
            return constant(decider)
        right = yield arguments[1], scope
        goes_on = not decider
        fails = None
        if left.error is not None and (_can_be(right, goes_on) or right.error is not None):
            fails = left.error
        elif right.error is not None and (_can_be(left, goes_on) or left.error is not None):
            fails = right.error
        decided = _can_be(left, decider) or _can_be(right, decider)
        undecided = _can_be(left, goes_on) and _can_be(right, goes_on)
        true, false = (decided, undecided) if decider else (undecided, decided)
        return truth(true=true, false=false).with_error(fails)

    def _choice(self, arguments: tuple[Expression, ...], scope: Scope) -> Evaluation:
        condition = yield arguments[0], scope
        chosen: Value | None = None
        for branch, taken in ((arguments[1], condition.can_be_true), (arguments[2], condition.can_be_false)):
            if taken:
                value = yield branch, scope
                chosen = value if chosen is None else join(chosen, value)
        return condition if chosen is None else chosen.with_error(condition.error)

    def _otherwise(self, arguments: tuple[Expression, ...], scope: Scope, *, unwraps: bool) -> Evaluation:
        """`optional.or(optional)` and `optional.orValue(value)`; an empty first operand evaluates the second."""
        first = yield arguments[0], scope
        content = first._replace(presence=Presence.PLAIN) if unwraps else first
        if first.presence is Presence.PRESENT or first.only_fails:
            return content
        second = yield arguments[1], scope
        return second.with_error(first.error) if first.presence is Presence.ABSENT else join(content, second)

    def _call_result(self, name: str, values: list[Value], offset: int) -> Value:
        """Any other function: fails where an argument does."""
        failing = next((value for value in values if value.only_fails), None)
        if failing is not None:
            return failing
        return self._result(name, values, offset).with_error(*(value.error for value in values))

    def _result(self, name: str, values: list[Value], offset: int) -> Value:
        match name, values:
            case "!_", [value]:
                return truth(true=value.can_be_false, false=value.can_be_true)
            case (("_==_" | "_!=_"), [left, right]):
                return self._equality(left, right, negated=name == "_!=_")
            case "@in", [key, container]:
                return self._presence_test(container, key)
            case "_[_]", [operand, key]:
                return self._read(operand, key, offset)
            case (("_?._" | "_[?_]"), [operand, key]):
                return self._read(operand, key, offset, optional=True)
            case "hasValue", [value]:
                return truth(true=value.presence is not Presence.ABSENT, false=value.presence is not Presence.PRESENT)
            case "value", [value]:
                absent = value.presence is Presence.ABSENT
                return _failure(offset) if absent else value._replace(presence=Presence.PLAIN)
            case "optional.of", [value]:
                return value._replace(presence=Presence.PRESENT)
            case "optional.ofNonZeroValue", [value]:
                return value._replace(presence=Presence.EITHER)
            case "optional.none", _:
                return Value(presence=Presence.ABSENT)
            case "dyn", [value]:
                return value
        return MAPS if any(value.holds_maps for value in values) else ANYTHING

    def _equality(self, left: Value, right: Value, *, negated: bool) -> Value:
        one, other = left.constant, right.constant
        plain = left.presence is right.presence is Presence.PLAIN
        if plain and type(one) is type(other) and isinstance(one, str | bool):
            return constant((one == other) is not negated)
        return ANYTHING

    def _presence_test(self, operand: Value, key: Value) -> Value:
        """`has(operand.key)` and `key in operand`."""
        if operand.only_fails:
            return operand
        absent = operand.presence is Presence.ABSENT or self._is_absent(operand, key) is True
        return truth(true=not absent, false=True).with_error(operand.error, key.error)

    def _read(self, operand: Value, key: Value, offset: int, *, optional: bool = False) -> Value:
        """`operand.key`, `operand[key]`, and with a `?` before the key; in an optional each read is one."""
        if operand.only_fails:
            return operand
        is_absent = self._is_absent(operand, key)
        found = self._found(operand, key).with_error(operand.error, key.error)
        if optional or operand.presence is not Presence.PLAIN:
            absent = is_absent is True or operand.presence is Presence.ABSENT
            return found._replace(presence=Presence.ABSENT if absent else Presence.EITHER)
        if is_absent is True:
            return _failure(offset if found.error is None else found.error)
        return found if is_absent is False else found.with_error(offset)

    def _is_absent(self, operand: Value, key: Value) -> bool | None:
        """True if what is missing is what would be read; None for perhaps."""
        place, name = operand.place, key.constant
        if not self._missing:
            return False
        if place is not None and isinstance(name, str):
            return (*place, name) == self._missing
        if place is not None:
            mine = place == self._missing[:-1] and key.key_of != place
            return None if mine and name is Unset.UNSET else False
        return None if operand.holds_maps and name in (Unset.UNSET, self._missing[-1]) else False

    def _found(self, operand: Value, key: Value) -> Value:
        """The value that is read, if it is there."""
        place, name = operand.place, key.constant
        if place is None:
            return MAPS if operand.holds_maps else ANYTHING
        if isinstance(name, str):
            found = (*place, name)
            if found in self._known:
                return Value(place=found, constant=self._known[found])
            return Value(place=found, holds_maps=len(found) < ITEM and found[0] in _MAPS)
        return MAPS if len(place) < ITEM - 1 else ANYTHING

    def _container(self, parts: list[Expression] | tuple[Expression, ...], scope: Scope) -> Evaluation:
        values = []
        for part in parts:
            values.append((yield part, scope))  # noqa: PERF401 - a comprehension cannot yield
        return self._call_result("", values, 0)

    def _comprehension(self, node: Comprehension, scope: Scope) -> Evaluation:
        initial = yield node.initial, scope
        if isinstance(node.range, ListLiteral) and not node.range.elements:
            # cel.bind: a fold over nothing; what the name stands for is evaluated where it is read.
            return (yield node.result, {**scope, node.accumulator: initial})
        over = yield node.range, scope
        if over.only_fails:
            return over
        folded = initial if isinstance(node.initial, Literal) else MAPS.with_error(initial.error)
        folded = folded._replace(can_be_true=True, can_be_false=True, constant=Unset.UNSET)
        inner = {**scope, **_variables(node, over), node.accumulator: folded}
        step = yield node.step, inner
        result = yield node.result, {**inner, node.accumulator: folded.with_error(step.error)}
        return result.with_error(over.error)


def _variables(node: Comprehension, over: Value) -> dict[str, Value]:
    """The values of a loop's variables: elements or keys; with two variables, keys or indices and values."""
    is_map = over.place is not None and over.presence is Presence.PLAIN
    element = MAPS if over.holds_maps else ANYTHING
    key = Value(key_of=over.place) if is_map else ANYTHING if node.second_variable else element
    found = {node.variable: key}
    if node.second_variable:
        found[node.second_variable] = ANYTHING if is_map and len(over.place or ()) == ITEM - 1 else element
    return found


def _can_be(value: Value, wanted: bool) -> bool:
    return value.can_be_true if wanted else value.can_be_false


def _failure(offset: int) -> Value:
    return Value(can_be_true=False, can_be_false=False, error=offset)
