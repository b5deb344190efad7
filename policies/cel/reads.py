"""Which parts of a device an expression can see, found without evaluating it.

Devices that agree in these parts have the same verdict.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.cel.interpreter import plan
from policies.kubernetes.resourceslices import Read

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["reads"]

_MAPS = ("attributes", "capacity")
_SCALARS = ("driver", "allowMultipleAllocations")


def reads(program: plan.Program) -> frozenset[Read] | None:
    """All parts that an expression can look at, or None if it may look at anything."""
    found: set[Read] = set()
    for step in _steps(program.root):
        read = _read(step)
        if read is None:
            return None
        found.update(read)
    return frozenset(found)


def _read(step: plan.Step) -> tuple[Read, ...] | None:
    """What a step itself reads: an attribute of the device, or the presence of a name; else nothing."""
    if isinstance(step, plan.Call) and step.function == "@in":
        key, container = step.arguments
        path = _path(container)
        if path is not None and isinstance(key, plan.Constant) and isinstance(key.value, str):
            return _presence(path, key.value)
        return ()
    if isinstance(step, plan.Attribute):
        path = _path(step)
        return () if path is None else _place(path)
    return ()


def _presence(path: tuple[str, ...], name: str) -> tuple[Read, ...] | None:
    if not path or path[0] not in _MAPS:
        return _place(path)
    if len(path) == 1:
        return (Read(path[0], name, ""),)
    return (Read(path[0], path[1], name),) if len(path) == len(_MAPS) else (Read(*path[:3]),)


def _place(path: tuple[str, ...]) -> tuple[Read, ...] | None:
    if not path or path[0] not in (*_MAPS, *_SCALARS):
        return None
    return (Read(path[0]),) if path[0] in _SCALARS else (Read(*path[:3]),)


def _path(step: plan.Step) -> tuple[str, ...] | None:
    """The constant look-ups in the device that an attribute begins with; None if it reads another value.

    What `cel.bind` names is followed to what it stands for.
    """
    keys: tuple[str, ...] = ()
    while isinstance(step, plan.Attribute) and isinstance(step.root, plan.Variable):
        constant = _constant_keys(step)
        keys = (*constant, *keys) if len(constant) == len(step.qualifiers) else constant
        if step.root.slot == 0:
            return keys
        if step.root.fold is None or not _is_binding(step.root.fold):
            return None
        step = step.root.fold.initial
    return None


def _constant_keys(step: plan.Attribute) -> tuple[str, ...]:
    keys = []
    for qualifier in step.qualifiers:
        if not (isinstance(qualifier.key, plan.Constant) and isinstance(qualifier.key.value, str)):
            break
        keys.append(qualifier.key.value)
    return tuple(keys)


def _is_binding(fold: plan.Fold) -> bool:
    """True if it is `cel.bind`: a fold over nothing."""
    return isinstance(fold.range, plan.Constant) and fold.range.value == ()


def _is_path(step: plan.Step) -> bool:
    """True if a step is nothing but constant look-ups in the device."""
    return (
        isinstance(step, plan.Attribute)
        and len(_constant_keys(step)) == len(step.qualifiers)
        and _path(step) is not None
    )


def _steps(root: plan.Step) -> Iterator[plan.Step]:
    """All steps that may be evaluated and are not already covered by what uses them."""
    pending, seen = [root], set()
    while pending:
        step = pending.pop()
        if id(step) in seen:
            continue
        seen.add(id(step))
        yield step
        pending += _parts(step)


def _parts(step: plan.Step) -> list[plan.Step]:
    if isinstance(step, plan.Attribute):
        keys = [qualifier.key for qualifier in step.qualifiers]
        if isinstance(step.root, plan.Choice):
            return [*keys, step.root.condition, step.root.yes, step.root.no]
        return keys if isinstance(step.root, plan.Variable) else [*keys, step.root]
    if isinstance(step, plan.Call):
        return list(step.arguments[:1] if _read(step) else step.arguments)
    if isinstance(step, plan.Fold):
        if not _is_binding(step):
            return [step.range, step.initial, step.condition, step.step, step.result]
        return [step.result] if _is_path(step.initial) else [step.result, step.initial]
    if isinstance(step, plan.Logic):
        return list(step.terms)
    if isinstance(step, plan.Equality | plan.OptionalOr):
        return [step.left, step.right]
    if isinstance(step, plan.Membership):
        return [step.value]
    return _constructed_parts(step)


def _constructed_parts(step: plan.Step) -> list[plan.Step]:
    if isinstance(step, plan.ListOf):
        return list(step.elements)
    if isinstance(step, plan.MapOf):
        return [part for entry in step.entries for part in entry]
    return list(step.values) if isinstance(step, plan.Message) else []
