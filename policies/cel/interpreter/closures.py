"""Code for look-ups, operators, loops, lists and maps, with a meter in the frame or without.

Where no costs are counted, places of the device that are known beforehand are read without the maps in between.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.cel.errors import NO_OVERLOAD, CelRuntimeError
from policies.cel.interpreter import plan
from policies.cel.interpreter.dispatch import checked_key, find, get, is_member, rewrap_optional, unwrap_optional
from policies.cel.interpreter.stack import METER, first_value
from policies.cel.kinds import display_text, go_type, usable
from policies.cel.libraries.operators import equal, equals
from policies.cel.libraries.times import NANOSECONDS_PER_SECOND, Duration, Timestamp
from policies.cel.runtime_cost import QUALIFIER
from policies.cel.values import Absent, Accumulation, Concatenation, Growing, Map, Optional, size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.cel.devices import CelDevice
    from policies.cel.interpreter.stack import Code, Compiled, Frame, Meter
    from policies.cel.runtime_cost import Outcome
    from policies.cel.values import Value


class _Unset:
    """The type of UNSET."""

    __slots__ = ()


UNSET = _Unset()
"""The value of an accumulator before it is first read."""


def initial_value(value: Value) -> Value:
    """The first value of an accumulator: empty lists and maps can grow."""
    if isinstance(value, tuple | Concatenation) and not size(value):
        return Accumulation()
    if isinstance(value, Map) and not len(value):
        return Growing({})
    return value


def variable(step: plan.Variable, initial: Compiled | None) -> Code:
    """A variable's value; `initial` is what an accumulator begins as, which may be an error and stays one."""
    slot = step.slot
    if slot == 0:
        return lambda frame: frame[0].value  # type: ignore[attr-defined]  # the Device
    if initial is None:
        return lambda frame: frame[slot]  # type: ignore[return-value]  # a value once the loop runs

    def read(frame: Frame) -> Value:
        value = frame[slot]
        if value is UNSET:
            try:
                value = initial_value(first_value(initial, frame))
            except CelRuntimeError as error:
                value = error
            frame[slot] = value
        if value.__class__ is CelRuntimeError:
            raise value.with_traceback(None)
        return value  # type: ignore[return-value]  # a value

    return read


def rewrap_code(code: Code) -> Code:
    """Code for an attribute without look-ups, whose optional is converted; see `lookups`."""

    def run(frame: Frame) -> Value:
        value = code(frame)
        return rewrap_optional(value) if value.__class__ is Optional else value

    return run


def choice(condition: Code, yes: Code, no: Code) -> Code:
    """`condition ? yes : no`."""

    def run(frame: Frame) -> Value:
        chosen = condition(frame)
        if chosen is True:
            return yes(frame)
        if chosen is False:
            return no(frame)
        raise CelRuntimeError(NO_OVERLOAD)

    return run


def attribute(step: plan.Attribute, root: Code, keys: tuple[Code, ...], *, is_inner: bool, counts: bool) -> Code:
    """Code for an attribute; if it is inner, `has` of an optional returns an optional."""
    if not step.qualifiers:
        return root
    optional = tuple(qualifier.is_optional for qualifier in step.qualifiers)
    constant = tuple(qualifier.key.value for qualifier in step.qualifiers if isinstance(qualifier.key, plan.Constant))
    if len(constant) == len(keys) and not (counts or step.is_test or any(optional)):
        if isinstance(step.root, plan.Variable) and step.root.slot == 0:
            match constant:
                case ("driver",):
                    return lambda frame: frame[0].driver  # type: ignore[attr-defined]  # the device
                case ("attributes" | "capacity" as part, str(domain), str(name)):
                    return _device_item(part, domain, name)
        return _path(root, constant)  # type: ignore[arg-type]  # planned keys are never errors
    return _look_up_code(root, tuple(zip(keys, optional, strict=True)), is_test=step.is_test, is_inner=is_inner)


def _device_item(part: str, domain: str, name: str) -> Code:
    """`device.attributes[domain].name`."""
    if part == "attributes":

        def read_attribute(frame: Frame) -> Value:
            device: CelDevice = frame[0]  # type: ignore[assignment]  # a frame has it there
            try:
                return device.attributes[domain][name]
            except KeyError:
                raise CelRuntimeError(f"no such key: {name}") from None

        return read_attribute

    def read_capacity(frame: Frame) -> Value:
        device: CelDevice = frame[0]  # type: ignore[assignment]  # a frame has it there
        try:
            return device.capacity[domain][name]
        except KeyError:
            raise CelRuntimeError(f"no such key: {name}") from None

    return read_capacity


def _path(root: Code, keys: tuple[Value, ...]) -> Code:
    """Constant look-ups, none of them optional; what they begin in may be."""

    def run(frame: Frame) -> Value:
        value = root(frame)
        if isinstance(value, Optional):
            return _in_optional(value, keys)
        for key in keys:
            value = get(value, key)
        return value

    return run


def _in_optional(optional: Optional, keys: tuple[Value, ...]) -> Value:
    found = optional.value if isinstance(optional.value, Absent) else unwrap_optional(optional.value)
    for key in keys:
        if isinstance(found, Absent):
            break
        found = find(found, key)
    return Optional(found)


def _look_up_code(root: Code, qualifiers: tuple[tuple[Code, bool], ...], *, is_test: bool, is_inner: bool) -> Code:
    """Code for look-ups: each that succeeds is charged, and so is one that fails outside an optional.

    Source: cel-go interpreter/attributes.go, applyQualifiers; runtimecost.go, Observe.
    """
    last = len(qualifiers) - 1

    def run(frame: Frame) -> Value:
        value: Value | Absent = root(frame)
        meter: Meter | None = frame[METER]  # type: ignore[assignment]  # a frame has it there
        is_optional = isinstance(value, Optional)
        if isinstance(value, Optional):
            value = value.value if isinstance(value.value, Absent) else unwrap_optional(value.value)
        for index, (key, makes_optional) in enumerate(qualifiers):
            if isinstance(value, Absent):
                break
            is_optional = is_optional or makes_optional
            look_up = find if is_optional or (is_test and index == last) else get
            try:
                value = look_up(value, checked_key(key(frame)))
            except CelRuntimeError:
                if meter is not None and not is_optional:
                    meter.charge(QUALIFIER)
                raise
            if meter is not None and not (is_optional and isinstance(value, Absent)):
                meter.charge(QUALIFIER)
        if is_test and not (is_optional and is_inner):
            return not isinstance(value, Absent)
        return Optional(value) if is_optional else value  # type: ignore[return-value]  # absent only if optional

    return run


def list_code(elements: tuple[Code, ...], optional: frozenset[int]) -> Code:
    """Code for a list; of the elements at optional indices, those that have a value."""

    def run(frame: Frame) -> Value:
        values = []
        for index, element in enumerate(elements):
            value = element(frame)
            if index in optional and not isinstance(value, Optional):
                raise _no_optional("list element", value)
            values.append(value)
        if not optional:
            return tuple(values)
        present = []
        for index, value in enumerate(values):
            if index not in optional:
                present.append(value)
            elif isinstance(value, Optional) and not isinstance(value.value, Absent):
                present.append(usable(value.value))
        return tuple(present)

    return run


def map_code(entries: tuple[tuple[Code, Code], ...], optional: frozenset[int]) -> Code:
    """Code for a map, without optional entries whose value is absent; the last of equal keys counts."""

    def run(frame: Frame) -> Value:
        found = []
        for index, (key_code, value_code) in enumerate(entries):
            key, value = key_code(frame), value_code(frame)
            if index in optional and not isinstance(value, Optional):
                raise _no_optional(f"entry '{display_text(key)}'", value)
            found.append((Map.key(key), value))
        present: dict[object, Value] = {}
        for index, (place, value) in enumerate(found):
            if index not in optional:
                present[place] = value
            elif isinstance(value, Optional):
                if isinstance(value.value, Absent):
                    present.pop(place, None)
                else:
                    present[place] = usable(value.value)
        return Map(present)

    return run


def _no_optional(what: str, value: Value) -> CelRuntimeError:
    return CelRuntimeError(f"cannot initialize optional {what} from non-optional value {display_text(value)}")


def message_code(step: plan.Message, values: tuple[Code, ...]) -> Code:
    """Code for a duration or timestamp from its fields."""

    def run(frame: Frame) -> Value:
        parts = {name: value(frame) for name, value in zip(step.fields, values, strict=True)}
        if step.type_name not in ("google.protobuf.Duration", "google.protobuf.Timestamp"):
            raise CelRuntimeError(f"unknown type '{step.type_name}'")
        seconds, nanoseconds = parts.get("seconds", 0), parts.get("nanos", 0)
        if not (isinstance(seconds, int) and isinstance(nanoseconds, int)):
            raise CelRuntimeError(f"field type conversion error for {step.type_name}")
        total = seconds * NANOSECONDS_PER_SECOND + nanoseconds
        return Duration(total) if step.type_name == "google.protobuf.Duration" else Timestamp(total)

    return run


def entries(over: Value, *, are_pairs: bool) -> Iterator[tuple[Value, Value]]:
    """The items of a loop: elements or keys; with two variables, indices or keys with their values.

    Raises:
        CelRuntimeError: the value is neither list nor map.
    """
    if isinstance(over, Map):
        return iter(over.items()) if are_pairs else ((key, None) for key in over)
    if isinstance(over, tuple | Concatenation):
        return iter(enumerate(over)) if are_pairs else ((element, None) for element in over)
    if are_pairs:
        raise CelRuntimeError(f"unsupported comprehension range type: {go_type(over)}")
    raise CelRuntimeError(f"got '{go_type(over)}', expected iterable type")


def final_value(value: Value) -> Value:
    """A value that grew while it was folded, as it is now."""
    if isinstance(value, Accumulation):
        return tuple(value)
    if isinstance(value, Growing):
        return Map(dict(zip(map(Map.key, value), (found for _, found in value.items()), strict=True)))
    return value


def fold(step: plan.Fold, over: Code, condition: Code, advance: Code, result: Code) -> Code:
    """A comprehension."""
    accumulator, first, second = step.accumulator, step.variable, step.second
    are_pairs = second >= 0

    def run(frame: Frame) -> Value:
        items = entries(over(frame), are_pairs=are_pairs)
        frame[accumulator] = UNSET
        meter: Meter | None = frame[METER]  # type: ignore[assignment]  # a frame has it there
        for frame[first], value in items:
            if meter is not None:
                meter.count_iteration()
            if are_pairs:
                frame[second] = value
            if not _goes_on(condition, frame):
                break
            try:
                frame[accumulator] = advance(frame)
            except CelRuntimeError as error:
                frame[accumulator] = error
        outcome = result(frame)
        return final_value(outcome) if outcome is frame[accumulator] else outcome

    return run


def _goes_on(condition: Code, frame: Frame) -> bool:
    """True if the loop continues; errors do not stop it."""
    try:
        return condition(frame) is not False
    except CelRuntimeError:
        return True


def value_or_raise(value: Outcome) -> Value:
    """A value; raises what is an error instead of one."""
    if isinstance(value, CelRuntimeError):
        raise value.with_traceback(None)
    return value


def constant(value: Outcome) -> Code:
    """A value, or the raising of an error."""
    if isinstance(value, CelRuntimeError):
        return lambda _: value_or_raise(value)
    return lambda _: value


def and_or(terms: tuple[Code, ...], decider: bool) -> Code:
    """`&&` or `||`: the first deciding term ends it; else the first that failed fails it."""

    def run(frame: Frame) -> Value:
        failure = None
        for term in terms:
            try:
                value = term(frame)
            except CelRuntimeError as error:
                failure = failure or error
                continue
            if value is decider:
                return decider
            if value.__class__ is not bool:
                failure = failure or CelRuntimeError(NO_OVERLOAD)
        if failure is not None:
            raise failure
        return not decider

    return run


def equality(left: Code, right: Code, known: Outcome, *, is_negated: bool) -> Code:
    """`==` or `!=`; `known` is the right side if it is a constant, else None."""
    if is_negated:
        return lambda frame: not equal(left(frame), right(frame))
    if not isinstance(known, str | bool):
        return lambda frame: equals(left(frame), right(frame))
    expected = known
    kind = expected.__class__

    def run(frame: Frame) -> Value:
        value = left(frame)
        return value == expected if value.__class__ is kind else equals(value, expected)

    return run


def membership(value: Code, members: frozenset[object]) -> Code:
    """`x in [constants]`."""
    return lambda frame: is_member(value(frame), members)


def optional_or(left: Code, right: Code, *, unwraps: bool, is_strict: bool) -> Code:
    """`or` and `orValue`; a left side that is not an optional is the result, or fails if `is_strict`."""

    def run(frame: Frame) -> Value:
        value = left(frame)
        if not isinstance(value, Optional):
            if is_strict:
                raise CelRuntimeError(NO_OVERLOAD)
            return value
        if isinstance(value.value, Absent):
            return right(frame)
        return usable(value.value) if unwraps else value

    return run
