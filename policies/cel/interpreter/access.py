"""Code that reads variables and looks into values.

Where no costs are counted, places of the device that are known beforehand are read without the maps in between.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.cel.cost.runtime_cost import QUALIFIER
from policies.cel.errors import NO_OVERLOAD, CelRuntimeError
from policies.cel.interpreter import plan
from policies.cel.interpreter.lookups import checked_key, find, get, rewrap_optional, unwrap_optional
from policies.cel.interpreter.stack import METER, first_value
from policies.cel.values import Absent, Accumulation, Concatenation, Growing, Map, Optional, size

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policies.cel.devices import CelDevice
    from policies.cel.interpreter.stack import Code, Compiled, Frame, Meter
    from policies.cel.values import Value

__all__ = ["UNSET", "attribute", "choice", "rewrap_code", "variable"]


class _Unset:
    """The type of UNSET."""

    __slots__ = ()


UNSET = _Unset()
"""What an accumulator is before it is first read."""

_NO_ENTRIES: Mapping[object, Value] = {}


def initial_value(value: Value) -> Value:
    """What an accumulator begins as: empty lists and maps can grow."""
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


def device_place(step: plan.Attribute) -> tuple[str, ...] | None:
    """The place of the device that an attribute reads, such as ("attributes", domain, name), if constant."""
    if not (isinstance(step.root, plan.Variable) and step.root.slot == 0) or not step.qualifiers:
        return None
    keys = tuple(qualifier.key.value for qualifier in step.qualifiers if isinstance(qualifier.key, plan.Constant))
    if len(keys) < len(step.qualifiers) or not all(isinstance(key, str) for key in keys):
        return None
    return keys  # type: ignore[return-value]  # strings all


def attribute(step: plan.Attribute, root: Code, keys: tuple[Code, ...], *, is_inner: bool, counts: bool) -> Code:
    """Code for an attribute; if it is inner, `has` of an optional returns an optional."""
    if not step.qualifiers:
        return root
    optional = tuple(qualifier.is_optional for qualifier in step.qualifiers)
    if not (counts or step.is_test or any(optional)):
        place = device_place(step)
        if place == ("driver",):
            return lambda frame: frame[0].driver  # type: ignore[attr-defined]  # the device
        if place is not None and len(place) == _PLACE and place[0] in ("attributes", "capacity"):
            return _device_item(*place)
        constant = [qualifier.key.value for qualifier in step.qualifiers if isinstance(qualifier.key, plan.Constant)]
        if len(constant) == len(keys):
            return _path(root, tuple(constant))  # type: ignore[arg-type]  # planned keys are never errors
    return _look_up_code(root, tuple(zip(keys, optional, strict=True)), is_test=step.is_test, is_inner=is_inner)


_PLACE = 3


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
