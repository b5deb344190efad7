"""The types of devices that a CEL selector can match, whatever the devices are otherwise.

A selector is evaluated on a model of each type, of which only the driver and the attribute `type` are known. The parts
between `&&`, `||`, `!` and `?:` that look at anything else may turn out either way, or fail.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

from policies.cel import (
    STORED,
    Call,
    CelCompileError,
    CelDevice,
    CelRuntimeError,
    Identifier,
    ListLiteral,
    Literal,
    Read,
    Select,
    Selector,
    begin_evaluation,
    compile_selector,
    steps_spent,
)
from policies.devices.deviceclasses import TYPES
from policies.kubernetes.bounds import Work, count_work, remember
from policies.nvidia.identifiers import COMPUTE_DOMAIN_DRIVER, DRIVER

if TYPE_CHECKING:
    from collections.abc import Callable

    from policies.cel import Expression
    from policies.kubernetes.resourceslices import Device


_Outcome = bool | None
"""The result of a part of an expression; None if it fails."""

_MOST_COST = 1_000
"""The most that the atoms of a selector may cost for one device, by the API server's estimate; those that tell types cost 5 or 20."""
_MOST_BYTES = 1 << 20
"""Of all expressions whose types are kept."""
_MOST_ATOMS = 64
"""Of one selector that are looked at."""
_MOST_STEPS = 20_000
"""The same for what CEL's costs do not see."""
_ANY: frozenset[_Outcome] = frozenset({True, False, None})
_OTHER_DRIVER = "example.com"
_DRIVER = Read("driver")
_MOST_DRIVERS = 8
"""Of one atom that are tried; an atom that names more may come to anything."""
_STANDARD = "resource.kubernetes.io"
_OF_SLICES = frozenset({"profile", "parentUUID"})
"""Attributes that only MIG devices have. Source: dra-driver-nvidia-gpu cmd/gpu-kubelet-plugin/deviceinfo.go."""


@dataclass(frozen=True, slots=True)
class _Model:
    """A device of which little is known."""

    driver: str
    device: CelDevice
    absent: frozenset[str] = frozenset()
    """Attributes of its driver that it does not have."""

    def knows(self, read: Read) -> bool:
        """True if what an expression looks at is known of the device."""
        if read.part == "driver":
            return True
        if read.domain is None:
            return False
        if self.driver == _OTHER_DRIVER:
            return read.domain in (DRIVER, COMPUTE_DOMAIN_DRIVER)
        if read.domain == self.driver:
            return read.part == "attributes" and read.name in ("", "type", *self.absent)
        return read.domain != _STANDARD


def _model(driver: str, type_: str, absent: frozenset[str] = frozenset()) -> _Model:
    return _Model(driver, CelDevice.read({"driver": driver, "attributes": {"type": {"string": type_}}}), absent)


_MODELS = {
    "gpu": _model(DRIVER, "gpu", _OF_SLICES),
    "mig": _model(DRIVER, "mig"),
    "vfio": _model(DRIVER, "vfio", _OF_SLICES),
    "channel": _model(COMPUTE_DOMAIN_DRIVER, "channel"),
    "daemon": _model(COMPUTE_DOMAIN_DRIVER, "daemon"),
    "other": _Model(_OTHER_DRIVER, CelDevice.read({"driver": _OTHER_DRIVER})),
}


_Outcomes = frozenset[_Outcome]


def _weight(text: str, _types: frozenset[str]) -> int:
    return 500 + len(text)


@remember(_MOST_BYTES, _weight)
def possible_types(text: str) -> frozenset[str]:
    """The types of devices that an expression can match: all of them where it does not compile."""
    count_work(len(text))
    try:
        selector = compile_selector(text, STORED)
    except CelCompileError:
        return TYPES
    outcomes = zip(_MODELS, _Analysis(selector).outcomes(selector.root), strict=True)
    return frozenset(type_ for type_, possible in outcomes if True in possible)


def as_selectors_see(device: Device) -> CelDevice:
    """A device of a ResourceSlice as selectors see it."""
    return CelDevice.read({"driver": device.driver, **device.body})


class _Analysis:
    """All possible results of the parts of an expression on each model; any beyond a limit of work."""

    def __init__(self, selector: Selector) -> None:
        self._selector = selector
        self._atoms = Work(_MOST_ATOMS)
        self._cost = Work(_MOST_COST)
        self._steps = Work(_MOST_STEPS)

    def outcomes(self, part: Expression) -> list[_Outcomes]:
        if not isinstance(part, Call) or part.function not in _CONNECTIVES:
            return self._of_atom(part)
        operands = [self.outcomes(argument) for argument in part.arguments]
        return [_CONNECTIVES[part.function](*of_one_model) for of_one_model in zip(*operands, strict=True)]

    def _of_atom(self, part: Expression) -> list[_Outcomes]:
        """An atom that looks at what is known and costs little is evaluated; any other may come to anything."""
        nothing_known = [_ANY] * len(_MODELS)
        selector = self._selector.part(part) if self._atoms.take(1) else None
        if selector is None or selector.reads is None:
            return nothing_known
        knowing = [all(map(model.knows, selector.reads)) for model in _MODELS.values()]
        if not any(knowing) or not self._cost.take(selector.max_cost):
            return nothing_known
        count_work(100 + selector.max_cost)
        if not selector.reads:
            return [self._on(selector, next(iter(_MODELS.values())).device)] * len(_MODELS)
        return [
            self._on_model(selector, part, model) if knows else _ANY
            for model, knows in zip(_MODELS.values(), knowing, strict=True)
        ]

    def _on_model(self, selector: Selector, part: Expression, model: _Model) -> _Outcomes:
        """The results of an atom on a model; one that reads the driver is tried with the drivers it names."""
        if model.driver != _OTHER_DRIVER or _DRIVER not in (selector.reads or ()):
            return self._on(selector, model.device)
        named = _drivers_named(part)
        if named is None or len(named) > _MOST_DRIVERS or not self._cost.take(selector.max_cost * len(named)):
            return _ANY
        devices = (model.device, *(CelDevice.read({"driver": driver}) for driver in sorted(named)))
        return frozenset[_Outcome]().union(*(self._on(selector, device) for device in devices))

    def _on(self, selector: Selector, device: CelDevice) -> _Outcomes:
        if self._steps.left < 0:
            return _ANY
        begin_evaluation()
        try:
            return frozenset({selector.matches(device)})
        except CelRuntimeError:
            return frozenset({None})
        finally:
            self._steps.spend(steps_spent())


def _drivers_named(part: Expression) -> frozenset[str] | None:
    """Drivers other than NVIDIA's that an expression names; None if it can tell drivers apart differently.

    An expression that only compares values is the same for all drivers that it does not name.
    """
    match part:
        case Literal(value=str() as text):
            return frozenset({text}) - {DRIVER, COMPUTE_DOMAIN_DRIVER}
        case Literal() | Identifier():
            return frozenset()
        case Select(operand=operand):
            parts: tuple[Expression, ...] = (operand,)
        case ListLiteral(elements=elements):
            parts = elements
        case Call(function=function, target=None, arguments=arguments) if function in _COMPARISONS:
            parts = arguments
        case _:
            return None
    found = [_drivers_named(each) for each in parts]
    return None if None in found else frozenset[str]().union(*(each for each in found if each is not None))


def _joined_outcomes(operands: tuple[_Outcomes, ...], *, decisive: bool) -> _Outcomes:
    """The results of `||` (decided by True) or `&&` (decided by False); a deciding operand hides failures."""
    return frozenset(
        decisive if decisive in outcomes else None if None in outcomes else not decisive
        for outcomes in product(*operands)
    )


def _choice(condition: _Outcomes, yes: _Outcomes, no: _Outcomes) -> _Outcomes:
    branches = {True: yes, False: no, None: frozenset({None})}
    return frozenset().union(*(branches[outcome] for outcome in condition))


_COMPARISONS = frozenset({"_==_", "_!=_", "@in", "_[_]", "_&&_", "_||_", "!_", "_?_:_"})
_CONNECTIVES: dict[str, Callable[..., _Outcomes]] = {
    "_&&_": lambda *operands: _joined_outcomes(operands, decisive=False),
    "_||_": lambda *operands: _joined_outcomes(operands, decisive=True),
    "!_": lambda operand: frozenset(None if outcome is None else not outcome for outcome in operand),
    "_?_:_": _choice,
}
"""By the names that cel-go gives to operators."""
